// Layout: quant/legacy/q5_0.h.
const uint kBlockValues = 32;
const uint kBlockBytes = 22;

vec4 DecodeFour(uint block, uint i) {
  const uvec4 q = FourBits(block + 6, 16, i) | BitsOfWord(block + 2, i) << 4;
  return Half(block) * (vec4(q) - 16);
}
