const uint kBlockValues = 1;
const uint kBlockBytes = 2;

vec4 DecodeFour(uint first, uint i) {
  const uint low = Word(first), high = Word(first + 4);
  return vec4(HalfToFloat(low & 0xffff), HalfToFloat(low >> 16), HalfToFloat(high & 0xffff),
              HalfToFloat(high >> 16));
}
