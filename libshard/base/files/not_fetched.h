// Sources that are not here yet: files that Git left as pointers, and addresses instead of paths.
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

// Whether `source` begins with "hf://", "https://", "http://" or "s3://".
bool IsAddress(std::string_view source);
// `source` without anything that may be secret: the user, password and query of an address.
// Everything else is unchanged.
std::string WithoutSecrets(const std::string& source);

// Says what to do if `source` is not a local path: how to download "hf://owner/name@revision",
// "owner/name", "https://..." or "s3://..." first; "" for anything else.
std::string RemoteSourceHint(const std::string& source);

}  // namespace moepack
