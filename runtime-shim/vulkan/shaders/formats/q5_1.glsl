// Layout: quant/legacy/q5_1.h.
const uint kBlockValues = 32;
const uint kBlockBytes = 24;

vec4 DecodeFour(uint block, uint i) {
  const uvec4 q = FourBits(block + 8, 16, i) | BitsOfWord(block + 4, i) << 4;
  return Half(block) * vec4(q) + Half(block + 2);
}
