// Layout: quant/tables/nvfp4.h.
#include "fp4_codes.glsl"

const uint kBlockValues = 64;
const uint kBlockBytes = 36;

// Half of what an unsigned E4M3 number stands for.
float HalfOfE4M3(uint scale) {
  const uint exponent = scale >> 3 & 15;
  const uint mantissa = scale & 7;
  if (scale == 0x7f) return 0;
  if (exponent == 0) return float(mantissa) / 1024;
  return uintBitsToFloat(exponent + 119 << 23 | mantissa << 20);
}

vec4 DecodeFour(uint block, uint i) {
  const uint group = i / 16;
  return HalfOfE4M3(Byte(block + group)) *
         Fp4Values(FourBits(block + 4 + group * 8, 8, i % 16));
}
