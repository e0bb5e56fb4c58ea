const uint kBlockValues = 1;
const uint kBlockBytes = 4;

vec4 DecodeFour(uint first, uint i) {
  return uintBitsToFloat(uvec4(Word(first), Word(first + 4), Word(first + 8), Word(first + 12)));
}
