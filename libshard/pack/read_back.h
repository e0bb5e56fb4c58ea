// Parses what is about to be written with the reader that will read it. Otherwise a file that our
// own reader refuses would only be noticed hours later, or on another machine.
#pragma once

#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/slice.h"

namespace moepack {

// Checks the headers of files that were laid out. Returns kUnsupported, with the reader's reason,
// if one would be refused or read as something else.
Status ReadBackHeaders(const std::vector<OutputFile>& files);

}  // namespace moepack
