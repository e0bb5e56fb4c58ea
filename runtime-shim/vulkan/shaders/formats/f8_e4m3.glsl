// 4 bits of exponent (bias 7), 3 of mantissa; no infinity, 0x7f is NaN (quant/half.h).
const uint kBlockValues = 1;
const uint kBlockBytes = 1;

float Float8(uint bits) {
  const uint sign = (bits & 0x80) << 24;
  const uint magnitude = bits & 0x7f;
  if (magnitude == 0x7f) return uintBitsToFloat(sign | 0x7fc00000);
  if (magnitude >= 8) return uintBitsToFloat(sign | (magnitude << 20) + 0x3c000000);
  const float small = float(magnitude) / 512;
  return sign != 0 ? -small : small;
}

vec4 DecodeFour(uint first, uint i) {
  const uvec4 bits = Fields(first, 0, 0xff);
  return vec4(Float8(bits.x), Float8(bits.y), Float8(bits.z), Float8(bits.w));
}
