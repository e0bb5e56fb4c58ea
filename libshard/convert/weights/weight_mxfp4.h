// MXFP4 as gpt-oss stores it: blocks of packed codes, and their scales.
#pragma once

#include "libshard/convert/weights/weight.h"

namespace moepack {

// "blocks" U8 [..., rows, groups, 16] and "scales" U8 [..., rows, groups] are a weight [..., rows,
// groups * 32]. Byte j of a block has value 2j in its low half and 2j + 1 in its high half; the
// scale is 2^(byte - 127). ggml's mxfp4 has the same codes and scales in another order: the reader
// repacks them bit by bit. A scale of 255, which the format defines as NaN, decodes to NaN;
// repacking keeps it.
Result<Weight> ReadMxfp4Weight(const WeightSource& source, const StoredWeight& stored);

}  // namespace moepack
