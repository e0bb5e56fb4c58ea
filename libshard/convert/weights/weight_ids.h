// Tables of expert ids, which models that route by the token's id have.
#pragma once

#include <cstdint>

#include "libshard/base/result.h"
#include "libshard/convert/weights/weight.h"

namespace moepack {

// I64 or I32, as i32: the reader of the former only narrows (RowReader::Repack). kCorrupt for
// another type, and, when it is read, for an id that is not below `experts`.
Result<Weight> ReadExpertIds(const WeightSource& source, const StoredWeight& stored,
                             uint32_t experts);

}  // namespace moepack
