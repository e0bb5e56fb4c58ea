// Layout: quant/grids/iq2_s.h.
#include "grid_points.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 82;

vec4 DecodeFour(uint block, uint i) {
  const uint level = Byte(block + 74 + i / 32) >> i % 32 / 16 * 4 & 15;
  const float scale = Half(block) * (0.5 + float(level)) * 0.25;
  const uint upper = Byte(block + 66 + i / 32) >> i / 8 % 4 * 2 & 3;
  const uint point = PointAt(Byte(block + 2 + i / 8) | upper << 8);
  return scale * WithSigns(Iq2Values(point >> i % 8 * 2), Byte(block + 34 + i / 8) >> i % 8);
}
