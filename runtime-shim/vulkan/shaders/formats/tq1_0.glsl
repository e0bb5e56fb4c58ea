// Layout: quant/ternary/tq1_0.h.
const uint kBlockValues = 256;
const uint kBlockBytes = 54;

// Digit `place` of a byte: it is the carry once the digits before it are gone.
float Trit(uint byte, uint place) {
  uint rest = byte;
  for (uint k = 0; k < place; ++k) rest = rest * 3 & 255;
  return float(rest * 3 >> 8);
}

vec4 DecodeFour(uint block, uint i) {
  // The runs of TritRun: 32 bytes, 16 and 4.
  const uint first = i < 160 ? 0 : i < 240 ? 160 : 240;
  const uint count = i < 160 ? 32 : i < 240 ? 16 : 4;
  const uint byte = block + (i < 160 ? 0 : i < 240 ? 32 : 48) + (i - first) % count;
  const uint place = (i - first) / count;
  const vec4 trits = vec4(Trit(Byte(byte), place), Trit(Byte(byte + 1), place),
                          Trit(Byte(byte + 2), place), Trit(Byte(byte + 3), place));
  return Half(block + 52) * (trits - 1);
}
