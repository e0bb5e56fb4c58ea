// Points of grids (quant/grids/points.h): levels of four values and their signs.

// The code book of the type, two points to a word (points.cc). It is not an array in the shader:
// drivers copy an array that is indexed by a value into the memory of every invocation, and
// llvmpipe takes minutes to compile that copy.
layout(binding = 3) readonly restrict buffer Points { uint point_words[]; };

uint PointAt(uint number) { return point_words[number / 2] >> number % 2 * 16 & 0xffff; }

// Four two-bit levels, three of which are used, as -1, 0 and 1, and an eighth up or down.
vec4 Iq1Values(uint levels, bool down) {
  return vec4(uvec4(levels) >> uvec4(0, 2, 4, 6) & 3) - (down ? 1.125 : 0.875);
}

// Four two-bit levels, three of which are used, and what they stand for: 8, 25, 43.
vec4 Iq2Values(uint levels) {
  const uvec4 level = uvec4(levels) >> uvec4(0, 2, 4, 6) & 3;
  return vec4(8 + 17 * level + level / 2);
}

// Four three-bit levels.
uvec4 EightLevels(uint point) { return uvec4(point) >> uvec4(0, 3, 6, 9) & 7; }

// The eighth of eight signs is the parity of seven.
uint EightSigns(uint seven) { return seven | (bitCount(seven) & 1) << 7; }

// Bit i of `signs` negates value i.
vec4 WithSigns(vec4 values, uint signs) {
  return mix(values, -values, notEqual(uvec4(signs) & uvec4(1, 2, 4, 8), uvec4(0)));
}
