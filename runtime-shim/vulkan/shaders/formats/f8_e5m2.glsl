// The upper half of an F16.
const uint kBlockValues = 1;
const uint kBlockBytes = 1;

vec4 DecodeFour(uint first, uint i) {
  const uvec4 halves = Fields(first, 0, 0xff) << 8;
  return vec4(HalfToFloat(halves.x), HalfToFloat(halves.y), HalfToFloat(halves.z),
              HalfToFloat(halves.w));
}
