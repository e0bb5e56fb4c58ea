// The table behind `--dry-run --tensors`: GGUF name, type and the rule that chose it.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack::cli {

std::string TypeTable(const std::vector<TensorType>& types);
moepack::Json TypesJson(const std::vector<TensorType>& types);

}  // namespace moepack::cli
