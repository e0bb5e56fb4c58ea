#include "manifest/output_path.h"

#include <algorithm>
#include <system_error>

#include "libshard/text.h"

namespace manifest {

namespace fs = shard::fs;

shard::Status CheckOutputApart(const std::string& out, const fs::path& source) {
  std::error_code error;
  const fs::path input = fs::weakly_canonical(source, error);
  const fs::path output = fs::weakly_canonical(out, error);
  const auto [at, unused] = std::mismatch(output.begin(), output.end(), input.begin(), input.end());
  if (at != output.end()) return shard::Ok();
  return shard::Error{
      shard::Code::kInvalidArgument,
      shard::Cat(out, ": expected an output apart from the input ", input.string(), ", found ",
                 output == input ? "the same" : "a directory around it"),
      "choose another output; inputs are never overwritten"};
}

shard::Error OutputExists(const std::string& out) {
  return shard::Error{
      shard::Code::kInvalidArgument,
      shard::Cat(out, ": expected nothing there, found an existing file or directory"),
      "use --force to replace it"};
}

}  // namespace manifest
