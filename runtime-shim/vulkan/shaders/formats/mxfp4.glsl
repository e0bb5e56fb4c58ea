// Layout: quant/tables/mxfp4.h.
#include "fp4_codes.glsl"

const uint kBlockValues = 32;
const uint kBlockBytes = 17;

vec4 DecodeFour(uint block, uint i) {
  const uint exponent = Byte(block);
  const float scale =
      uintBitsToFloat(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
  return scale * Fp4Values(FourBits(block + 1, 16, i));
}
