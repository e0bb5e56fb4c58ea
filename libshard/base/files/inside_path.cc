#include "libshard/base/files/inside_path.h"

#include <algorithm>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack {

namespace fs = std::filesystem;

bool StaysBelow(std::string_view path) {
  const std::vector<std::string> parts = Split(path, '/');
  return std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part.empty() || part == "." || part == "..";
  });
}

bool IsSafeRelativePath(std::string_view path) {
  const bool strange = std::any_of(path.begin(), path.end(), [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 || byte == 0x7f || c == '\\';
  });
  return !strange && path.size() <= kMaxPath && IsUtf8(path) && StaysBelow(path);
}

bool HoldsPath(const fs::path& outer, const fs::path& inner) {
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

Status CheckInside(const fs::path& directory, const std::string& name) {
  std::error_code error;
  const fs::path file = directory / name;
  const fs::path real_directory = CanonicalPath(directory, error);
  const fs::path real = CanonicalPath(file, error);
  if (error) return Error{Code::kNotFound, Cat(file.string(), ": ", ErrnoText(error.value()))};
  if (HoldsPath(real_directory, real)) return Ok();
  // models--owner--name/snapshots/<revision>/file -> ../../blobs/<digest>: the cache of
  // huggingface_hub.
  const fs::path snapshots = real_directory.parent_path();
  if (snapshots.filename() == "snapshots" && HoldsPath(snapshots.parent_path() / "blobs", real)) {
    return Ok();
  }
  return Error{Code::kCorrupt, Cat(file.string(), ": expected a file inside ", directory.string(),
                                   ", found a link to ", real.string())};
}

}  // namespace moepack
