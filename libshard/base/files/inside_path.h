// Names of files that stay inside a directory, judged by spelling and through links.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack {

// True for a relative path with '/' between parts, none of which is empty, "." or "..".
bool StaysBelow(std::string_view path);

// The same, and also UTF-8 without '\\' or control characters, not longer than kMaxPath: what a
// manifest can name.
bool IsSafeRelativePath(std::string_view path);

// Whether `outer` is `inner` or one of the directories around it. REQUIRES: both are canonical.
bool HoldsPath(const std::filesystem::path& outer, const std::filesystem::path& inner);

// kCorrupt unless `name`, symlinks followed, stays inside `directory` (or inside the blobs of the
// Hugging Face cache that `directory` is a snapshot of). kNotFound if it does not exist.
Status CheckInside(const std::filesystem::path& directory, const std::string& name);

}  // namespace moepack
