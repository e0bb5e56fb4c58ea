// Layout: quant/tables/iq4_xs.h.
#include "iq4_codes.glsl"

const uint kBlockValues = 256;
const uint kBlockBytes = 136;

vec4 DecodeFour(uint block, uint i) {
  const uint group = i / 32;
  const uint low = Byte(block + 4 + group / 2) >> group % 2 * 4 & 15;
  const uint high = Short(block + 2) >> 2 * group & 3;
  const float scale = Half(block) * (float(low | high << 4) - 32);
  return scale * Iq4Values(FourBits(block + 8, 16, i));
}
