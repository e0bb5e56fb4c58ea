#include "manifest/document/damaged.h"

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {

const char* const kDamagedHint = "the distribution is corrupt";

std::string VerifyCommand(const std::string& path) {
  return Cat("`", ShellCommand({"moepack", "verify", PathArgument(path)}), "`");
}

Error NameDamaged(const std::string& distribution, Error error) {
  if (error.hint != kDamagedHint) return error;
  error.hint = Cat(kDamagedHint, ": ", VerifyCommand(distribution), " says where");
  return error;
}

}  // namespace moepack::manifest
