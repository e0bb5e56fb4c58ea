// What to do about a damaged distribution or node.
#pragma once

#include <string>

#include "libshard/base/result.h"

namespace moepack::manifest {

// Hint of errors that verify explains. Where the distribution is known, NameDamaged makes a command
// of it, and leaves every other error as it is.
extern const char* const kDamagedHint;
Error NameDamaged(const std::string& distribution, Error error);
// "`moepack verify PATH`", as /bin/sh reads it.
std::string VerifyCommand(const std::string& path);

}  // namespace moepack::manifest
