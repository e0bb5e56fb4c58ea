// Renumbers experts in tensor names, because node directories count their experts from 0.
#pragma once

#include <cstdint>
#include <string>

#include "libshard/base/result.h"
#include "libshard/model/family.h"

namespace moepack {

// Returns `name` with its expert id replaced: "model.layers.3.mlp.experts.17.up_proj.weight" and 4
// -> "model.layers.3.mlp.experts.4.up_proj.weight". The id is the last number between dots. It is
// kUnsupported if the family does not read the new name as the same tensor of expert `id`.
Result<std::string> RenumberExpert(FamilyMatcher& matcher, const std::string& name, uint32_t id);

}  // namespace moepack
