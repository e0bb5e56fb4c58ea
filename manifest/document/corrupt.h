// Hints for a corrupt distribution or node.
#pragma once

#include <string>

#include "libshard/base/result.h"

namespace moepack::manifest {

// The hint of errors that `verify` explains. NameCorrupt turns it into a command if the
// distribution is known, and leaves all other errors unchanged.
extern const char* const kCorruptHint;
Error NameCorrupt(const std::string& distribution, Error error);
// Returns "`moepack verify PATH`" with the path quoted for /bin/sh.
std::string VerifyCommand(const std::string& path);

}  // namespace moepack::manifest
