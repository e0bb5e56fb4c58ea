#include "manifest/output_path.h"

#include <algorithm>
#include <system_error>

#include "libshard/checkpoint_index.h"
#include "libshard/text.h"
#include "manifest/manifest.h"
#include "manifest/node_record.h"

namespace manifest {

namespace fs = shard::fs;

namespace {

shard::Error NotApart(const std::string& out, const fs::path& input, const std::string& found) {
  return {shard::Code::kInvalidArgument,
          shard::Cat(out, ": expected an output apart from the input ", input.string(), ", found ",
                     found),
          "choose another output; inputs are never overwritten"};
}

}  // namespace

shard::Status CheckOutputApart(const std::string& out, const fs::path& source,
                               const std::vector<fs::path>& files) {
  if (out.empty()) {
    return shard::Error{shard::Code::kInvalidArgument,
                        "output: expected the name of a directory, found nothing"};
  }
  std::error_code error;
  const fs::path input = fs::weakly_canonical(source, error);
  const fs::path output = fs::weakly_canonical(out, error);
  std::string found;
  if (output == input) {
    found = "the same";
  } else if (shard::HoldsPath(output, input)) {
    found = "a directory around it";
  } else if (shard::HoldsPath(input, output) && fs::exists(output, error) &&
             !fs::is_directory(output, error)) {
    found = "a file in it";
  }
  for (const fs::path& file : files) {
    const bool holds = shard::HoldsPath(output, fs::weakly_canonical(file, error));
    if (found.empty() && holds) found = shard::Cat("what holds ", file.string());
  }
  if (found.empty()) return shard::Ok();
  return NotApart(out, input, found);
}

shard::Status CheckOutsideDistribution(const std::string& out, const fs::path& distribution,
                                       const std::vector<fs::path>& files) {
  SHARD_CHECK(CheckOutputApart(out, distribution, files));
  std::error_code error;
  const fs::path input = fs::weakly_canonical(distribution, error);
  if (!shard::HoldsPath(input, fs::weakly_canonical(out, error))) return shard::Ok();
  return NotApart(out, input, "a directory in it");
}

shard::Status CheckReplaceable(const std::string& out, bool force) {
  if (!force) {
    return shard::Error{
        shard::Code::kInvalidArgument,
        shard::Cat(out, ": expected nothing there, found an existing file or directory"),
        "use --force to replace what moepack wrote there, or choose another output"};
  }
  std::error_code error;
  const bool directory = fs::is_directory(fs::symlink_status(out, error));
  const bool ours = fs::exists(fs::path(out) / kManifestFile, error) ||
                    fs::exists(fs::path(out) / kNodeFile, error);
  if (directory && (ours || fs::is_empty(out, error))) return shard::Ok();
  return shard::Error{
      shard::Code::kInvalidArgument,
      shard::Cat(out, ": expected a distribution or node that moepack wrote, found ",
                 directory ? "a directory of something else" : "no directory"),
      "--force never deletes anything else: choose another output"};
}

}  // namespace manifest
