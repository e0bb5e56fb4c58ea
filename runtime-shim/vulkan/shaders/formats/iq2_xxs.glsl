// Layout: quant/grids/iq2_xxs.h.
#include "grid_points.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 66;

vec4 DecodeFour(uint block, uint i) {
  const uint numbers = block + 2 + i / 32 * 8, part = i % 32 / 8;
  const uint word = Word(numbers + 4);
  const float scale = Half(block) * (0.5 + float(word >> 28)) * 0.25;
  const uint point = PointAt(Byte(numbers + part));
  const uint signs = EightSigns(word >> 7 * part & 127);
  return scale * WithSigns(Iq2Values(point >> i % 8 * 2), signs >> i % 8);
}
