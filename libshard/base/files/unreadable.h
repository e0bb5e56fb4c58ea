// The error with which a writer refuses to write something that its own reader would refuse.
#pragma once

#include <string>

#include "libshard/base/result.h"

namespace moepack {

// kUnsupported: "<where>: expected <what> that can be read, found one that our own reader refuses:
// <reason>".
Error Unreadable(const std::string& where, const std::string& what, const std::string& reason);

}  // namespace moepack
