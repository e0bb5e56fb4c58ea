// Layout: quant/k_quants/q6_k.h.
const uint kBlockValues = 256;
const uint kBlockBytes = 210;

vec4 DecodeFour(uint block, uint i) {
  const int scale = int(Byte(block + 192 + i / 16) << 24) >> 24;
  const uvec4 q = FourBits(block, 64, i) | TwoBits(block + 128, i) << 4;
  return Half(block + 208) * float(scale) * (vec4(q) - 32);
}
