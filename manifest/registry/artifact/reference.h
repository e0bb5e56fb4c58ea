// What a user names to publish to or to pull from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::registry {

// The tag of a reference that names neither tag nor digest.
inline constexpr const char* kDefaultTag = "latest";

// A place where manifests are kept, and what is named in it.
struct Reference {
  enum class Kind : uint8_t {
    kLayout,     // "layout:DIR", an OCI image layout of this machine
    kWebLayout,  // "layout+https://host/path", one that a web server serves
    kServer,     // "oci://host[:port]/repository"
    kFiles,      // a distribution as it is: a directory, or an address
  };
  Kind kind = Kind::kLayout;
  // The directory; the address of the layout ("https://..."); "host[:port]/repository"; the
  // directory or address as it was written, which may hold secrets.
  std::string place;
  std::string tag;     // "" if none was named
  std::string digest;  // "sha256:<64 digits>"; "" if none was named. It goes before the tag.
  std::string tag_or_default() const { return tag.empty() ? kDefaultTag : tag; }
  // The same place with another tag and digest.
  Reference With(std::string new_tag, std::string new_digest = "") const {
    return {kind, place, std::move(new_tag), std::move(new_digest)};
  }
};

// In the last component of the path, ':' begins the tag and '@' the digest; before it both are
// ordinary. A directory whose own name holds one of them is written with '/' at its end:
// "layout:a:b/" and "layout:a:b/:v1". A distribution as files has neither tag nor digest.
// kUnsupported for another scheme, kInvalidArgument for a misspelt reference.
Result<Reference> ParseReference(std::string_view text);
// ParseReference reads it back. Of a distribution as files it may hold secrets.
std::string ReferenceText(const Reference& reference);

// [a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}
bool IsTag(std::string_view text);
// "sha256:" and 64 lower-case hexadecimal digits.
bool IsDigest(std::string_view text);
// The digest's digits. REQUIRES: IsDigest(digest).
std::string HexOf(const std::string& digest);
std::string DigestOf(const std::string& hex);

}  // namespace moepack::registry
