#include "manifest/document/damaged.h"

#include "libshard/base/quote.h"
#include "libshard/base/text.h"

namespace manifest {

const char* const kDamagedHint = "the distribution is damaged";

std::string VerifyCommand(const std::string& path) {
  const std::string word = shard::Cat(path.starts_with('-') ? "./" : "", path);
  return shard::Cat("`", shard::ShellCommand({"moepack", "verify", word}), "`");
}

shard::Error NameDamaged(const std::string& distribution, shard::Error error) {
  if (error.hint != kDamagedHint) return error;
  error.hint = shard::Cat(kDamagedHint, ": ", VerifyCommand(distribution), " says where");
  return error;
}

}  // namespace manifest
