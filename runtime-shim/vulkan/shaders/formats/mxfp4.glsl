// Layout: quant/tables/mxfp4.h.
const uint kBlockValues = 32;
const uint kBlockBytes = 17;

// Twice the magnitudes of E2M1, by code, in four bits each: 0, 1, 2, 3, 4, 6, 8, 12. The scale is
// halved.
const uint kMagnitudes = 0xc8643210;

vec4 DecodeFour(uint block, uint i) {
  const uint exponent = Byte(block);
  const float scale =
      uintBitsToFloat(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
  const uvec4 q = FourBits(block + 1, 16, i);
  const vec4 magnitudes = vec4(uvec4(kMagnitudes) >> q % 8 * 4 & 15);
  return scale * mix(magnitudes, -magnitudes, greaterThan(q, uvec4(7)));
}
