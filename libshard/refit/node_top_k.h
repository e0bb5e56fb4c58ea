// How many experts a token uses on the nodes of a refit.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/result.h"
#include "libshard/refit/refit_record.h"

namespace moepack {

// The parameter of a record that states it.
inline constexpr const char* kNodeTopK = "top_k";

// 0: as many as in the model, also if the record does not say. kCorrupt, with `where`, for a value
// that is not a number or is more than layers can have.
Result<uint32_t> NodeTopK(const std::string& where, const RefitRecord& record);

}  // namespace moepack
