// Twice the values of E2M1 (quant/tables/fp4.h); scales are halved.

// The magnitudes by code, in four bits each: 0, 1, 2, 3, 4, 6, 8, 12.
const uint kMagnitudes = 0xc8643210;

vec4 Fp4Values(uvec4 q) {
  const vec4 magnitudes = vec4(uvec4(kMagnitudes) >> q % 8 * 4 & 15);
  return mix(magnitudes, -magnitudes, greaterThan(q, uvec4(7)));
}
