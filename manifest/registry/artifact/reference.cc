#include "manifest/registry/artifact/reference.h"

#include <algorithm>
#include <vector>

#include "libshard/base/text/address.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/scheme.h"

namespace moepack::registry {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";
constexpr size_t kMaxTag = 128;
constexpr std::string_view kWordCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";

using Kind = Reference::Kind;

// How each kind of reference is spelled. Longer prefixes are tried first.
struct Form {
  std::string_view prefix;  // at the start of the text
  std::string_view kept;    // the part of it that belongs to the place
  Kind kind;
  std::string_view shown;
};
constexpr Form kForms[] = {
    {"layout+https://", "https://", Kind::kWebLayout, "layout+https://host/path[:tag]"},
    {"layout+http://", "http://", Kind::kWebLayout, "layout+http://host/path[:tag]"},
    {"layout:", "", Kind::kLayout, "layout:DIR[:tag][@sha256:...]"},
    {"oci://", "", Kind::kServer, "oci://host[:port]/repository[:tag][@sha256:...]"},
};
constexpr const char* kAllForms =
    "oci://host/repository[:tag][@sha256:...], layout:DIR[:tag][@sha256:...] or "
    "layout+https://host/path[:tag]";

Error BadPart(const Form& form, const char* part, std::string_view expected,
              std::string_view found) {
  const bool directory = form.kind == Kind::kLayout;
  return {Code::kInvalidArgument,
          Cat("reference: ", part, ": expected ", expected, ", found ", Quoted(found)),
          directory ? "a directory whose own name holds ':' or '@' is written with '/' at its end: "
                      "layout:a:b/:tag"
                    : Cat("write ", form.shown)};
}

// Takes tag and digest off the end of `rest`, leaving the place.
Status TakeNames(const Form& form, std::string_view& rest, Reference& reference) {
  const size_t slash = rest.rfind('/');
  const size_t last = slash == std::string_view::npos ? 0 : slash + 1;
  if (const size_t at = rest.find('@', last); at != std::string_view::npos) {
    reference.digest = rest.substr(at + 1);
    rest = rest.substr(0, at);
    if (!IsDigest(reference.digest))
      return BadPart(form, "digest", "sha256: and 64 hexadecimal digits", reference.digest);
  }
  if (const size_t colon = rest.find(':', last); colon != std::string_view::npos) {
    reference.tag = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
    if (!IsTag(reference.tag)) return BadPart(form, "tag", kTagForm, reference.tag);
  }
  return Ok();
}

// A host contains '.' or ':' or is localhost: there is no default registry.
bool IsHost(std::string_view text) {
  const bool plain = text.find_first_not_of(
                         "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-:[]") ==
                     std::string_view::npos;
  return plain && (text == "localhost" || text.find_first_of(".:") != std::string_view::npos);
}

// [a-z0-9]+, with ".", "_", "__" or any number of "-" between such words (OCI distribution
// specification, "Pulling manifests").
bool IsNamePart(std::string_view text) {
  const auto word = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  size_t i = 0;
  while (true) {
    const size_t begin = i;
    while (i < text.size() && word(text[i])) ++i;
    if (i == begin) return false;
    if (i == text.size()) return true;
    const size_t between = i;
    while (i < text.size() && !word(text[i])) ++i;
    const std::string_view gap = text.substr(between, i - between);
    const bool dashes = gap.find_first_not_of('-') == std::string_view::npos;
    if (!dashes && gap != "." && gap != "_" && gap != "__") return false;
  }
}

Error UserInAddress(const Form& form) {
  return {Code::kInvalidArgument,
          "reference: expected an address, found one with a user or password",
          Cat("write ", form.shown, ", and log in as docs/registry.md says")};
}

Status CheckServerPlace(const Form& form, std::string_view place) {
  const size_t slash = place.find('/');
  const std::string_view host = place.substr(0, slash);
  if (host.find('@') != std::string_view::npos) return UserInAddress(form);
  if (!IsHost(host))
    return BadPart(form, "host", "a name with '.' or ':' in it, or localhost", host);
  const std::string_view name = slash == std::string_view::npos ? "" : place.substr(slash + 1);
  const std::vector<std::string> parts = Split(std::string(name), '/');
  if (!name.empty() && name.size() <= 255 && std::all_of(parts.begin(), parts.end(), IsNamePart))
    return Ok();
  return BadPart(form, "repository",
                 "lower-case letters and digits, with single '.', '_', '__' or '-' between them "
                 "and '/' between parts",
                 name);
}

// A user, password or query in an address could only be a secret.
Status CheckWebPlace(const Form& form, std::string_view place) {
  const std::string_view behind = place.substr(place.find("://") + 3);
  const std::string_view host = behind.substr(0, behind.find('/'));
  if (host.find('@') != std::string_view::npos) return UserInAddress(form);
  if (behind.find_first_of("?#") != std::string_view::npos) {
    return Error{Code::kInvalidArgument,
                 "reference: expected the address of a directory, found one with '?' or '#'",
                 Cat("write ", form.shown)};
  }
  return host.empty() ? Status(BadPart(form, "host", "a name", host)) : Ok();
}

Result<Reference> ParseForm(const Form& form, std::string_view rest) {
  Reference reference;
  reference.kind = form.kind;
  SHARD_CHECK(TakeNames(form, rest, reference));
  reference.place = Cat(form.kept, rest);
  if (form.kind == Kind::kServer) SHARD_CHECK(CheckServerPlace(form, rest));
  if (form.kind == Kind::kWebLayout) SHARD_CHECK(CheckWebPlace(form, reference.place));
  if (rest.empty()) return BadPart(form, "directory", "a path", "");
  return reference;
}

std::string HintOfScheme(std::string_view scheme, std::string_view text) {
  if (std::string hint = MeantReferenceHint(text); !hint.empty()) return hint;
  const std::string lower = Lower(scheme) + "://";
  const bool known = std::any_of(std::begin(kForms), std::end(kForms),
                                 [&](const Form& form) { return form.prefix == lower; });
  return known
             ? Cat("write the scheme in lower case: ", lower)
             : Cat("distributions as plain files are read from ", remote::SchemeStarts(), ", too");
}

// A reference that names no store is a distribution as files.
Result<Reference> ParseFiles(std::string_view text) {
  if (text.empty()) {
    return Error{Code::kInvalidArgument, Cat("reference: expected ", kAllForms, ", found none")};
  }
  const std::string_view scheme = SchemeOf(text);
  if (!scheme.empty() && !remote::IsAddress(text)) {
    return Error{Code::kUnsupported,
                 Cat("reference: scheme: expected ", kAllForms, ", found ", scheme, "://..."),
                 HintOfScheme(scheme, text)};
  }
  // The query would only be sent with this address, not with those of the files.
  if (Lower(scheme).starts_with("http") && text.find('?') != std::string_view::npos) {
    return Error{Code::kInvalidArgument,
                 "reference: expected the address of a directory, found one with '?'",
                 "name the directory that holds distribution.json, without '?'"};
  }
  return Reference{Kind::kFiles, std::string(text), "", ""};
}

// Names that skopeo takes for a place, and how the same place is written here. Without a prefix it
// is a registry's.
struct OtherForm {
  std::string_view prefix, ours;
};
constexpr OtherForm kOtherForms[] = {{"docker://", "oci://"}, {"oci:", "layout:"}, {"", "oci://"}};
// Places that only skopeo reads.
constexpr std::string_view kSkopeoForms[] = {
    "oci-archive:", "dir:", "docker-archive:", "docker-daemon:", "containers-storage:"};

bool StartsWithForm(std::string_view text, std::string_view prefix) {
  return Lower(text.substr(0, prefix.size())) == prefix;
}

// Why "docker://..." is no reference, without what was found, which may be a secret.
std::string WrongDockerHint(std::string_view text) {
  constexpr std::string_view kDocker = "docker://";
  if (!StartsWithForm(text, kDocker)) return "";
  const auto read = ParseReference(Cat("oci://", text.substr(kDocker.size())));
  if (read) return "";
  const std::string& message = read.error().message;
  const size_t from = message.find(": ") + 2;
  return Cat("write oci://host[:port]/repository[:tag]; ",
             message.substr(from, message.find(", found ") - from));
}

}  // namespace

std::string MeantReferenceHint(std::string_view text) {
  const std::string meant = MeantReference(text);
  if (!meant.empty()) return Cat("write ", ShellWord(meant));
  for (const std::string_view form : kSkopeoForms) {
    if (!StartsWithForm(text, form)) continue;
    return Cat("copy it to a layout or a registry first, `",
               ShellCommand({"skopeo", "copy", std::string(text), "oci:models:v1"}),
               "`, and name layout:models:v1");
  }
  return WrongDockerHint(text);
}

std::string MeantReference(std::string_view text) {
  for (const OtherForm& form : kOtherForms) {
    // A scheme may be in capital letters.
    const bool scheme = form.prefix.ends_with("://");
    if (!(scheme ? StartsWithForm(text, form.prefix) : text.starts_with(form.prefix))) continue;
    const std::string_view rest = text.substr(form.prefix.size());
    // "./a" and "/a" are paths, and "docker:" alone is a scheme.
    const bool word =
        !rest.empty() && (kWordCharacters.find(rest[0]) != rest.npos || rest[0] == '[');
    if (!form.prefix.empty() || word) {
      const std::string meant = Cat(form.ours, rest);
      return ParseReference(meant) ? meant : "";
    }
  }
  return "";
}

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
  for (const Form& form : kForms) {
    if (text.starts_with(form.prefix)) return ParseForm(form, text.substr(form.prefix.size()));
  }
  return ParseFiles(text);
}

Reference LayoutAt(const std::string& place) {
  const bool web = std::any_of(std::begin(kForms), std::end(kForms), [&](const Form& form) {
    return form.kind == Kind::kWebLayout && place.starts_with(form.kept);
  });
  return {web ? Kind::kWebLayout : Kind::kLayout, place, "", ""};
}

std::string ReferenceText(const Reference& reference) {
  std::string text;
  std::string_view place = reference.place;
  for (const Form& form : kForms) {
    if (form.kind != reference.kind || !place.starts_with(form.kept)) continue;
    text = form.prefix;
    place.remove_prefix(form.kept.size());
    break;
  }
  text += place;
  const size_t slash = place.rfind('/');
  const std::string_view name = place.substr(slash == std::string_view::npos ? 0 : slash + 1);
  const bool files = reference.kind == Kind::kFiles;
  const bool server = reference.kind == Kind::kServer;
  if (!files && !server && name.find_first_of(":@") != std::string_view::npos) text += "/";
  if (!reference.tag.empty()) text += Cat(":", reference.tag);
  if (!reference.digest.empty()) text += Cat("@", reference.digest);
  return text;
}

}  // namespace moepack::registry
