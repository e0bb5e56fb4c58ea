// Layout: quant/legacy/q4_1.h.
const uint kBlockValues = 32;
const uint kBlockBytes = 20;

vec4 DecodeFour(uint block, uint i) {
  return Half(block) * vec4(FourBits(block + 4, 16, i)) + Half(block + 2);
}
