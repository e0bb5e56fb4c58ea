// A matrix of weights at binding 0, four values of a row at a time. Its bytes are read as words of
// 32 bits, whatever the size of a block, so that no extension for small integers is needed. After
// the matrix there are at least 16 more bytes, which may be read but are not used.

// Every word of a block is at a multiple of 4 bytes.
layout(constant_id = 0) const bool kAligned = false;
// Rows have a multiple of 4 values. Always true for types with blocks.
layout(constant_id = 1) const bool kWholeFours = true;

layout(binding = 0) readonly restrict buffer WeightWords { uint weight_words[]; };

// Byte of the binding where the matrix starts, and bytes of a row.
struct Weights {
  uint first, row_bytes;
};

// Four bytes, little-endian.
uint Word(uint byte_index) {
  const uint word = weight_words[byte_index / 4];
  if (kAligned) return word;
  const uint shift = byte_index % 4 * 8;
  // In two steps, because shifting by 32 is undefined.
  return word >> shift | weight_words[byte_index / 4 + 1] << 1 << (31 - shift);
}

uint Byte(uint byte_index) {
  return weight_words[byte_index / 4] >> byte_index % 4 * 8 & 0xff;
}

uint Short(uint byte_index) { return Byte(byte_index) | Byte(byte_index + 1) << 8; }

// F16. unpackHalf2x16 may flush subnormals to 0, but the scales of small weights are subnormal.
float HalfToFloat(uint bits) {
  const uint sign = (bits & 0x8000) << 16;
  const uint magnitude = bits & 0x7fff;
  if (magnitude >= 0x7c00) return uintBitsToFloat(sign | 0x7f800000 | (magnitude & 0x3ff) << 13);
  if (magnitude >= 0x400) return uintBitsToFloat(sign | (magnitude << 13) + 0x38000000);
  const float small = float(magnitude) * 5.9604644775390625e-8;  // 2^-24
  return sign != 0 ? -small : small;
}

float Half(uint byte_index) { return HalfToFloat(Short(byte_index)); }

// The four bytes from `byte_index` on, each shifted right and masked.
uvec4 Fields(uint byte_index, uint shift, uint mask) {
  return uvec4(Word(byte_index)) >> uvec4(0, 8, 16, 24) + shift & mask;
}

// How blocks spread bits over bytes: quant/legacy/nibbles.h and quant/k_quants/k_bits.h. Each
// returns those of values i ... i + 3; i is a multiple of 4.
uvec4 FourBits(uint bytes, uint distance, uint i) {
  const uint in_run = i % (2 * distance);
  return Fields(bytes + i / (2 * distance) * distance + in_run % distance,
                in_run / distance * 4, 15);
}

uvec4 TwoBits(uint bytes, uint i) {
  return Fields(bytes + i / 128 * 32 + i % 32, i % 128 / 32 * 2, 3);
}

uvec4 OneBit(uint bytes, uint i) { return Fields(bytes + i % 32, i / 32, 1); }

// Bit i of a word of 32.
uvec4 BitsOfWord(uint byte_index, uint i) {
  return uvec4(Word(byte_index)) >> uvec4(0, 1, 2, 3) + i & 1;
}

// kBlockValues, kBlockBytes and vec4 DecodeFour(uint block, uint i): values i ... i + 3 of the
// block at byte `block`; i is a multiple of 4.
#include "format.glsl"

// Values column ... column + 3 of a row; column is a multiple of 4. Those after the end of the row
// are 0.
vec4 WeightsAt(Weights weights, uint row, uint column, uint columns) {
  const uint block =
      weights.first + row * weights.row_bytes + column / kBlockValues * kBlockBytes;
  const vec4 four = DecodeFour(block, column % kBlockValues);
  if (kWholeFours) return four;
  return mix(vec4(0), four, lessThan(uvec4(0, 1, 2, 3) + column, uvec4(columns)));
}
