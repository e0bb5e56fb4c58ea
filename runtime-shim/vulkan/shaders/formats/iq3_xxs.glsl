// Layout: quant/grids/iq3_xxs.h.
#include "grid_points.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 98;

vec4 DecodeFour(uint block, uint i) {
  const uint word = Word(block + 66 + i / 32 * 4);
  const float scale = Half(block) * (0.5 + float(word >> 28)) * 0.5;
  // 4, 12, 20, ... 52, and 62 for the last.
  const uvec4 level = EightLevels(PointAt(Byte(block + 2 + i / 4)));
  const uint signs = EightSigns(word >> i % 32 / 8 * 7 & 127);
  return scale * WithSigns(vec4(4 + 8 * level + level / 7 * 2), signs >> i % 8);
}
