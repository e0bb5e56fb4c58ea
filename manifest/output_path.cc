#include "manifest/output_path.h"

#include <algorithm>
#include <system_error>

#include "libshard/text.h"

namespace manifest {

namespace fs = shard::fs;

namespace {

bool Holds(const fs::path& outer, const fs::path& inner) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

}  // namespace

shard::Status CheckOutputApart(const std::string& out, const fs::path& source,
                               const std::vector<fs::path>& files) {
  std::error_code error;
  const fs::path input = fs::weakly_canonical(source, error);
  const fs::path output = fs::weakly_canonical(out, error);
  std::string found;
  if (output == input) {
    found = "the same";
  } else if (Holds(output, input)) {
    found = "a directory around it";
  } else if (Holds(input, output) && fs::exists(output, error) &&
             !fs::is_directory(output, error)) {
    found = "a file in it";
  }
  for (const fs::path& file : files) {
    const bool holds = Holds(output, fs::weakly_canonical(file, error));
    if (found.empty() && holds) found = shard::Cat("what holds ", file.string());
  }
  if (found.empty()) return shard::Ok();
  return shard::Error{shard::Code::kInvalidArgument,
                      shard::Cat(out, ": expected an output apart from the input ", input.string(),
                                 ", found ", found),
                      "choose another output; inputs are never overwritten"};
}

shard::Error OutputExists(const std::string& out) {
  return shard::Error{
      shard::Code::kInvalidArgument,
      shard::Cat(out, ": expected nothing there, found an existing file or directory"),
      "use --force to replace it"};
}

}  // namespace manifest
