#include "libshard/base/files/lfs_pointer.h"

#include <optional>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md; older clients wrote the other URL.
constexpr std::string_view kPointers[] = {"version https://git-lfs.github.com/spec/",
                                          "version https://hawser.github.com/spec/"};
constexpr size_t kMaxPointer = 1024;

// The size that a pointer states.
std::optional<uint64_t> StatedSize(std::string_view pointer) {
  constexpr std::string_view kSize = "\nsize ";
  const size_t at = pointer.find(kSize);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = pointer.substr(at + kSize.size());
  return ParseUint(rest.substr(0, rest.find_first_of("\r\n")));
}

}  // namespace

Status CheckNoLfsPointer(const std::string& path, std::string_view beginning) {
  for (const std::string_view start : kPointers) {
    if (!beginning.starts_with(start)) continue;
    const auto size = StatedSize(beginning.substr(0, kMaxPointer));
    return Error{Code::kNotFound,
                 Cat(path, ": expected the file itself, found a Git LFS pointer to ",
                     size ? FormatBytes(*size) : std::string("it")),
                 "run `git lfs pull` in the clone to fetch what its pointers stand for"};
  }
  return Ok();
}

Status CheckNoLfsPointer(const std::string& path, std::span<const std::byte> beginning) {
  return CheckNoLfsPointer(
      path, std::string_view(reinterpret_cast<const char*>(beginning.data()), beginning.size()));
}

}  // namespace moepack
