// What a user names to publish to or to pull from: "layout:DIR[:tag][@sha256:...]".
#pragma once

#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::registry {

// The tag of a reference that names neither tag nor digest.
inline constexpr const char* kDefaultTag = "latest";

// An OCI image layout directory of this machine and what is named in it.
struct Reference {
  std::string directory;
  std::string tag;     // "" if none was named
  std::string digest;  // "sha256:<64 digits>"; "" if none was named. It goes before the tag.
  std::string tag_or_default() const { return tag.empty() ? kDefaultTag : tag; }
};

// In the last component of the path, ':' begins the tag and '@' the digest; before it both are
// ordinary. A directory whose own name holds one of them is written with '/' at its end:
// "layout:a:b/" and "layout:a:b/:v1". kUnsupported for another scheme, kInvalidArgument for a
// misspelt reference.
Result<Reference> ParseReference(std::string_view text);
// A reference that ParseReference reads back: with `tag` if it is not "", then with `digest`.
std::string ReferenceText(const std::string& directory, const std::string& tag,
                          const std::string& digest = "");

// [a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}
bool IsTag(std::string_view text);
// "sha256:" and 64 lower-case hexadecimal digits.
bool IsDigest(std::string_view text);
// The digest's digits. REQUIRES: IsDigest(digest).
std::string HexOf(const std::string& digest);
std::string DigestOf(const std::string& hex);

}  // namespace moepack::registry
