// A digest by which statistics know the model that they were measured on.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/model/model.h"

namespace moepack {

// XXH3-128 of the router matrices of all layers but those for multi-token prediction, as F32, in
// order of layers: the same as `profile` writes into statistics, for every float type. Reads the
// routers. "" where they cannot be read here: a checkpoint of names or promises alone, files of
// another machine, and types that are more than a number per weight.
Result<std::string> RouterDigest(const MoeModel& model);

}  // namespace moepack
