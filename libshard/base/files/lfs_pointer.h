// Files that Git left as pointers: they are not here yet.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack {

// kNotFound, with a hint that says how to fetch the file, if `beginning` is that of a Git LFS
// pointer: the small text that a clone has instead of a large file.
Status CheckNoLfsPointer(const std::string& path, std::string_view beginning);
Status CheckNoLfsPointer(const std::string& path, std::span<const std::byte> beginning);

}  // namespace moepack
