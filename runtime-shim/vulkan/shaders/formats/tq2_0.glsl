// Layout: quant/ternary/tq2_0.h.
const uint kBlockValues = 256;
const uint kBlockBytes = 66;

vec4 DecodeFour(uint block, uint i) {
  return Half(block + 64) * (vec4(TwoBits(block, i)) - 1);
}
