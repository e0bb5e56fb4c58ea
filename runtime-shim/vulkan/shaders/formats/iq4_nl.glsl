// Layout: quant/tables/iq4_nl.h.
#include "iq4_codes.glsl"

const uint kBlockValues = 32;
const uint kBlockBytes = 18;

vec4 DecodeFour(uint block, uint i) {
  return Half(block) * Iq4Values(FourBits(block + 2, 16, i));
}
