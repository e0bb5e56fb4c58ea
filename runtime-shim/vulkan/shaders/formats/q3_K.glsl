// Layout: quant/k_quants/q3_k.h.
const uint kBlockValues = 256;
const uint kBlockBytes = 110;

vec4 DecodeFour(uint block, uint i) {
  const uint group = i / 16;
  const uint low = Byte(block + 96 + group % 8) >> group / 8 * 4 & 15;
  const uint high = Byte(block + 104 + group % 4) >> group / 4 * 2 & 3;
  const float scale = Half(block + 108) * (float(low | high << 4) - 32);
  const uvec4 q = TwoBits(block + 32, i) | OneBit(block, i) << 2;
  return scale * (vec4(q) - 4);
}
