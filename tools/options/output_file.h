// The rules for an output that is one file.
#pragma once

#include <string>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::cli {

// kInvalidArgument for an output that is one of `inputs` (links are followed, and even with
// `force`), is a directory, is in a missing directory or, without `force`, exists. Empty inputs are
// ignored.
Status CheckOutputFile(const std::string& out, const std::vector<std::string>& inputs, bool force);

// The error of CheckOutputFile for an output that is an input.
Error OutputIsInput(const std::string& out);

}  // namespace moepack::cli
