// The code book of iq4_nl and iq4_xs (quant/iq4.h).
const float kIq4Codes[16] = float[](-127, -104, -83, -65, -49, -35, -22, -10,
                                    1, 13, 25, 38, 53, 69, 89, 113);

vec4 Iq4Values(uvec4 codes) {
  return vec4(kIq4Codes[codes.x], kIq4Codes[codes.y], kIq4Codes[codes.z], kIq4Codes[codes.w]);
}
