// The 16 bytes that q4_K and q5_K start with (quant/search/k_pairs.h).

// Scale and minimum of a group of 32.
vec2 PairOf(uint block, uint group) {
  const uint packed = block + 4;
  uint scale, least;
  if (group < 4) {
    scale = Byte(packed + group) & 63;
    least = Byte(packed + group + 4) & 63;
  } else {
    const uint low = Byte(packed + group + 4);
    scale = low & 15 | Byte(packed + group - 4) >> 6 << 4;
    least = low >> 4 | Byte(packed + group) >> 6 << 4;
  }
  return vec2(Half(block) * float(scale), Half(block + 2) * float(least));
}
