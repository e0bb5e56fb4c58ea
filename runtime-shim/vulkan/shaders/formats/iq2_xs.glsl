// Layout: quant/grids/iq2_xs.h.
#include "grid_points.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 74;

vec4 DecodeFour(uint block, uint i) {
  const uint level = Byte(block + 66 + i / 32) >> i % 32 / 16 * 4 & 15;
  const float scale = Half(block) * (0.5 + float(level)) * 0.25;
  const uint bits = Short(block + 2 + i / 8 * 2);
  const uint point = PointAt(bits & 511);
  return scale * WithSigns(Iq2Values(point >> i % 8 * 2), EightSigns(bits >> 9) >> i % 8);
}
