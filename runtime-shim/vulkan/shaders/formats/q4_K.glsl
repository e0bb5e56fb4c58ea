// Layout: quant/k_quants/q4_k.h.
#include "scale_pairs.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 144;

vec4 DecodeFour(uint block, uint i) {
  const vec2 pair = PairOf(block, i / 32);
  return pair.x * vec4(FourBits(block + 16, 32, i)) - pair.y;
}
