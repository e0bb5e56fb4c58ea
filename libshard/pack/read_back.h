// What is about to be written, read as its reader will: nobody is to find out after hours, or on
// another machine, that a file of ours is refused.
#pragma once

#include <vector>

#include "libshard/base/result.h"
#include "libshard/pack/slice.h"

namespace moepack {

// The headers of files that were laid out. kUnsupported, with the reader's reason, when one would
// be refused or read as something else.
Status ReadBackHeaders(const std::vector<OutputFile>& files);

}  // namespace moepack
