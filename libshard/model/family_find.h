// Finds the family of a model, in the list or by a file that describes one.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/config.h"
#include "libshard/model/family.h"

namespace moepack {

// The family of a config. kUnsupported, with a one-sentence reason, for models that have no routed
// experts (dense, RWKV, Mamba: nothing to split) and for architectures we do not know (hint:
// --family FILE).
Result<const Family*> FindFamily(const std::string& where, const ModelConfig& config);

// Finds a family without a config: the first that classifies every name and finds an expert.
// kUnsupported if there is none.
Result<const Family*> FindFamilyByNames(const std::string& where,
                                        const std::vector<std::string_view>& names);

}  // namespace moepack
