#include "manifest/document/corrupt.h"

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {

const char* const kCorruptHint = "the distribution is corrupt";

std::string VerifyCommand(const std::string& path) {
  return Cat("`", ShellCommand({"moepack", "verify", PathArgument(path)}), "`");
}

Error NameCorrupt(const std::string& distribution, Error error) {
  if (error.hint != kCorruptHint) return error;
  error.hint = Cat(kCorruptHint, ": ", VerifyCommand(distribution), " says where");
  return error;
}

}  // namespace moepack::manifest
