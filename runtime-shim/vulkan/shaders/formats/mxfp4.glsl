// Layout: quant/mxfp4.h.
const uint kBlockValues = 32;
const uint kBlockBytes = 17;

// Twice the values of E2M1; the scale is halved.
const float kCodes[16] = float[](0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12);

vec4 DecodeFour(uint block, uint i) {
  const uint exponent = Byte(block);
  const float scale =
      uintBitsToFloat(exponent < 2 ? 0x00200000u << exponent : (exponent - 1) << 23);
  const uvec4 q = FourBits(block + 1, 16, i);
  return scale * vec4(kCodes[q.x], kCodes[q.y], kCodes[q.z], kCodes[q.w]);
}
