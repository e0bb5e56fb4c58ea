#include "manifest/registry/artifact/reference.h"

#include "libshard/base/text.h"

namespace moepack::registry {
namespace {

constexpr std::string_view kLayoutScheme = "layout:";
constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kMaxTag = 128;
constexpr std::string_view kWordCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
constexpr const char* kForm = "layout:DIR[:tag][@sha256:...]";
constexpr const char* kColonHint =
    "a directory whose own name holds ':' or '@' is written with '/' at its end: layout:a:b/:tag";

// The scheme of "oci://host/..." and of "layout+https://...": the rest may hold secrets and is not
// shown.
std::string_view SchemeOf(std::string_view text) {
  const size_t end = text.find("://");
  if (end == text.npos || end == 0) return "";
  const std::string_view scheme = text.substr(0, end);
  const bool word =
      scheme.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789+.-") == std::string_view::npos;
  return word ? scheme : "";
}

Error NoLayout(std::string_view text) {
  if (const std::string_view scheme = SchemeOf(text); !scheme.empty()) {
    return {Code::kUnsupported,
            Cat("reference: scheme: expected ", kForm, ", found ", scheme, "://..."),
            "this version publishes to and pulls from OCI image layout directories only"};
  }
  return {Code::kInvalidArgument, Cat("reference: expected ", kForm, ", found ", Quoted(text)),
          Cat("name a directory as ", ShellWord(Cat(kLayoutScheme, text)))};
}

Error BadPart(std::string_view text, const char* part, const char* expected,
              std::string_view found) {
  return {Code::kInvalidArgument,
          Cat(Shown(text), ": ", part, ": expected ", expected, ", found ", Quoted(found)),
          kColonHint};
}

}  // namespace

bool IsTag(std::string_view text) {
  if (text.empty() || text.size() > kMaxTag) return false;
  if (kWordCharacters.find(text[0]) == std::string_view::npos) return false;
  return text.find_first_not_of(Cat(kWordCharacters, ".-")) == std::string_view::npos;
}

bool IsDigest(std::string_view text) {
  if (!text.starts_with(kDigestPrefix)) return false;
  text.remove_prefix(kDigestPrefix.size());
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

std::string HexOf(const std::string& digest) { return digest.substr(kDigestPrefix.size()); }
std::string DigestOf(const std::string& hex) { return Cat(kDigestPrefix, hex); }

Result<Reference> ParseReference(std::string_view text) {
  if (!text.starts_with(kLayoutScheme)) return NoLayout(text);
  std::string_view rest = text.substr(kLayoutScheme.size());
  const size_t slash = rest.rfind('/');
  const size_t last = slash == std::string_view::npos ? 0 : slash + 1;
  Reference reference;
  if (const size_t at = rest.find('@', last); at != std::string_view::npos) {
    reference.digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!IsDigest(reference.digest))
      return BadPart(text, "digest", "sha256: and 64 hexadecimal digits", reference.digest);
  }
  if (const size_t colon = rest.find(':', last); colon != std::string_view::npos) {
    reference.tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!IsTag(reference.tag))
      return BadPart(text, "tag", "up to 128 letters, digits, '_', '.' and '-'", reference.tag);
  }
  if (rest.empty()) return BadPart(text, "directory", "a path", "");
  reference.directory = rest;
  return reference;
}

std::string ReferenceText(const std::string& directory, const std::string& tag,
                          const std::string& digest) {
  std::string text = Cat(kLayoutScheme, directory);
  const size_t slash = directory.rfind('/');
  const std::string_view name =
      std::string_view(directory).substr(slash == std::string::npos ? 0 : slash + 1);
  if (name.find_first_of(":@") != std::string_view::npos) text += "/";
  if (!tag.empty()) text += Cat(":", tag);
  if (!digest.empty()) text += Cat("@", digest);
  return text;
}

}  // namespace moepack::registry
