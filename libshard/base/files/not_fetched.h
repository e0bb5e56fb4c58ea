// Sources that are not here yet: files that Git left as pointers, and addresses in place of paths.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack {

// kNotFound, with a hint that says how to fetch the file, when `beginning` is that of a Git LFS
// pointer: the small text that a clone has in place of a large file.
Status CheckNoLfsPointer(const std::string& path, std::string_view beginning);
Status CheckNoLfsPointer(const std::string& path, std::span<const std::byte> beginning);

// "hf://", "https://", "http://" or "s3://" at the beginning.
bool IsAddress(std::string_view source);
// `source` without what may be a secret: the user, the password and the query of an address.
// Everything else is as it was.
std::string WithoutSecrets(const std::string& source);

// Says what to do when `source` is not a local path: how to download "hf://owner/name@revision",
// "owner/name", "https://..." or "s3://..." first; "" for anything else.
std::string RemoteSourceHint(const std::string& source);

}  // namespace moepack
