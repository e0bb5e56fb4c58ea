// Layout: quant/k_quants/q5_k.h.
#include "scale_pairs.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 176;

vec4 DecodeFour(uint block, uint i) {
  const vec2 pair = PairOf(block, i / 32);
  const uvec4 q = FourBits(block + 48, 32, i) | OneBit(block + 16, i) << 4;
  return pair.x * vec4(q) - pair.y;
}
