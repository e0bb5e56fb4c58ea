// Layout: quant/ternary/iq1_s.h.
#include "grid_points.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 50;

vec4 DecodeFour(uint block, uint i) {
  const uint word = Short(block + 34 + i / 32 * 2);
  const float scale = Half(block) * float(1 + 2 * (word >> 12 & 7));
  const uint upper = word >> i / 8 % 4 * 3 & 7;
  const uint point = PointAt(Byte(block + 2 + i / 8) | upper << 8);
  return scale * Iq1Values(point >> i % 8 * 2, word >= 0x8000);
}
