#include "tools/options/output_file.h"

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"

namespace moepack::cli {
namespace {

Error RefusedOutput(const std::string& out, const char* why, const char* hint) {
  return {Code::kInvalidArgument, Cat(out, " ", why), hint};
}

}  // namespace

Error OutputIsInput(const std::string& out) {
  return RefusedOutput(out, "is also an input",
                       "choose another output; inputs are never overwritten");
}

Status CheckOutputFile(const std::string& out, const std::vector<std::string>& inputs, bool force) {
  for (const std::string& input : inputs) {
    if (input.empty()) continue;
    SHARD_TRY(const bool same, IsSameFile(input, out));
    if (same || input == out) return OutputIsInput(out);
  }
  SHARD_TRY(const bool directory, IsDirectory(out));
  if (directory) return RefusedOutput(out, "is a directory", "the option takes the name of a file");
  const fs::path folder = fs::path(out).parent_path();
  SHARD_TRY(const bool holds, IsDirectory(folder.empty() ? "." : folder));
  if (!holds)
    return RefusedOutput(out, "lies in a directory that does not exist",
                         "make the directory first");
  SHARD_TRY(const bool taken, IsTaken(out));
  if (force || !taken) return Ok();
  return RefusedOutput(out, "already exists", "--force replaces it, and -o names another file");
}

}  // namespace moepack::cli
