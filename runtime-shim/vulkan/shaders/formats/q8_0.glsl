// Layout: quant/legacy/q8_0.h.
const uint kBlockValues = 32;
const uint kBlockBytes = 34;

vec4 DecodeFour(uint block, uint i) {
  // The top byte of a signed word keeps its sign when shifted down.
  const ivec4 q = ivec4(uvec4(Word(block + 2 + i)) << uvec4(24, 16, 8, 0)) >> 24;
  return Half(block) * vec4(q);
}
