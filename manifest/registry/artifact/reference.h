// What a user names to publish to or to pull from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "libshard/base/result.h"

namespace moepack::registry {

// The tag of a reference that names neither a tag nor a digest.
inline constexpr const char* kDefaultTag = "latest";

// A place where manifests are kept, and what is named in it.
struct Reference {
  enum class Kind : uint8_t {
    kLayout,     // "layout:DIR", an OCI image layout on this machine
    kWebLayout,  // "layout+https://host/path", one that a web server serves
    kServer,     // "oci://host[:port]/repository"
    kFiles,      // a distribution as files: a directory, or an address
  };
  Kind kind = Kind::kLayout;
  // The directory; the address of the layout ("https://..."); "host[:port]/repository"; the
  // directory or address as written, which may contain secrets.
  std::string place;
  std::string tag;     // "" if none was named
  std::string digest;  // "sha256:<64 digits>"; "" if none was named. Takes precedence over the tag.
  std::string tag_or_default() const { return tag.empty() ? kDefaultTag : tag; }
  // The same place with a different tag and digest.
  Reference With(std::string new_tag, std::string new_digest = "") const {
    return {kind, place, std::move(new_tag), std::move(new_digest)};
  }
};

// In the last component of the path, ':' begins the tag and '@' the digest; earlier both are
// ordinary characters. A directory whose own name contains one of them is written with a trailing
// '/': "layout:a:b/" and "layout:a:b/:v1". A distribution as files has neither tag nor digest.
// kUnsupported for another scheme, kInvalidArgument for a malformed reference.
Result<Reference> ParseReference(std::string_view text);
// That of the layout at `place`, a directory or the address of one on a web server.
Reference LayoutAt(const std::string& place);
// ParseReference reads it back. For a distribution as files it may contain secrets.
std::string ReferenceText(const Reference& reference);

// What somebody meant who wrote a place as docker, podman or skopeo take it:
// "oci://localhost:5055/a" for "localhost:5055/a" and "docker://localhost:5055/a", and
// "layout:models:v1" for "oci:models:v1".
// "" if that would be no reference. "models.d/a" could be a directory, too: the caller looks.
std::string MeantReference(std::string_view text);
// What to do about such a place, in words: how it is written here, or that skopeo has to copy it
// first ("dir:models", "docker-daemon:models:v1"). "" for any other text.
std::string MeantReferenceHint(std::string_view text);

// [a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}
bool IsTag(std::string_view text);
inline constexpr const char* kTagForm = "up to 128 letters, digits, '_', '.' and '-'";
// "sha256:" and 64 lower-case hexadecimal digits.
bool IsDigest(std::string_view text);
// The digits of the digest. REQUIRES: IsDigest(digest).
std::string HexOf(const std::string& digest);
std::string DigestOf(const std::string& hex);

}  // namespace moepack::registry
