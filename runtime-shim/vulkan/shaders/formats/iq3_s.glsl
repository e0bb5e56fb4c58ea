// Layout: quant/grids/iq3_s.h.
#include "grid_points.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 110;

vec4 DecodeFour(uint block, uint i) {
  const uint level = Byte(block + 106 + i / 64) >> i % 64 / 32 * 4 & 15;
  const float scale = Half(block) * float(1 + 2 * level);
  const uint ninth = Byte(block + 66 + i / 32) >> i / 4 % 8 & 1;
  const uvec4 levels = EightLevels(PointAt(Byte(block + 2 + i / 4) | ninth << 8));
  return scale * WithSigns(vec4(1 + 2 * levels), Byte(block + 74 + i / 8) >> i % 8);
}
