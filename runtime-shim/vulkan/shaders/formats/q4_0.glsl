// Layout: quant/legacy/q4_0.h.
const uint kBlockValues = 32;
const uint kBlockBytes = 18;

vec4 DecodeFour(uint block, uint i) {
  return Half(block) * (vec4(FourBits(block + 2, 16, i)) - 8);
}
