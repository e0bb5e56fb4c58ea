// The code book of iq4_nl and iq4_xs (quant/tables/iq4.h) as bytes of four words: -127, -104, -83,
// -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113. With a constant array indexed by a
// value, llvmpipe takes four times as long.
uvec4 Iq4Words(uvec4 codes) {
  const bvec4 upper = notEqual(codes & 4, uvec4(0));
  const uvec4 low = mix(uvec4(0xbfad9881), uvec4(0xf6eaddcf), upper);
  const uvec4 high = mix(uvec4(0x26190d01), uvec4(0x71594535), upper);
  return mix(low, high, notEqual(codes & 8, uvec4(0)));
}

vec4 Iq4Values(uvec4 codes) {
  return vec4(ivec4(Iq4Words(codes) << 24 - codes % 4 * 8) >> 24);
}
