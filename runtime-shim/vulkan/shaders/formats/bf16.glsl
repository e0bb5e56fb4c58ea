// The upper half of an F32.
const uint kBlockValues = 1;
const uint kBlockBytes = 2;

vec4 DecodeFour(uint first, uint i) {
  const uint low = Word(first), high = Word(first + 4);
  return uintBitsToFloat(uvec4(low << 16, low & 0xffff0000, high << 16, high & 0xffff0000));
}
