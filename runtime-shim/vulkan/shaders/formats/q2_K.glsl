// Layout: quant/k_quants/q2_k.h.
const uint kBlockValues = 256;
const uint kBlockBytes = 84;

vec4 DecodeFour(uint block, uint i) {
  const uint pair = Byte(block + i / 16);
  const float scale = Half(block + 80) * float(pair & 15);
  const float least = Half(block + 82) * float(pair >> 4);
  return scale * vec4(TwoBits(block + 16, i)) - least;
}
