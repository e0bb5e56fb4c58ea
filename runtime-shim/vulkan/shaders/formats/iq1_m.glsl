// Layout: quant/ternary/iq1_m.h.
#include "grid_points.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 56;

// Four bits of d are in each of four 16-bit words.
float BlockScale(uint block) {
  const uint low = Word(block + 48), high = Word(block + 52);
  return HalfToFloat(low >> 12 & 0xf | low >> 24 & 0xf0 | high >> 4 & 0xf00 | high >> 16 & 0xf000);
}

vec4 DecodeFour(uint block, uint i) {
  const uint level = Short(block + 48 + i / 64 * 2) >> i % 64 / 16 * 3 & 7;
  const float scale = BlockScale(block) * float(1 + 2 * level);
  const uint half_byte = Byte(block + 32 + i / 16) >> i % 16 / 8 * 4;
  const uint point = PointAt(Byte(block + i / 8) | (half_byte & 7) << 8);
  return scale * Iq1Values(point >> i % 8 * 2, (half_byte & 8) != 0);
}
