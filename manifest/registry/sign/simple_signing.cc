#include "manifest/registry/sign/simple_signing.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "libshard/base/json.h"
#include "libshard/base/text.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

constexpr const char* kClaimType = "cosign container image signature";
constexpr size_t kMaxIdentity = 255;
constexpr std::string_view kNameCharacters = "abcdefghijklmnopqrstuvwxyz0123456789";

bool IsHost(std::string_view text) {
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const bool port = colon == text.npos || ParseUint(text.substr(colon + 1)).value_or(0) > 0;
  const bool known = name.find('.') != name.npos || colon != text.npos || name == "localhost";
  const bool spelled =
      !name.empty() &&
      name.find_first_not_of(Cat(kNameCharacters, ".-ABCDEFGHIJKLMNOPQRSTUVWXYZ")) == name.npos;
  const bool ends = !name.starts_with('.') && !name.starts_with('-') && !name.ends_with('.') &&
                    !name.ends_with('-');
  return port && known && spelled && ends && name.find("..") == name.npos;
}

// One component: letters and digits, with '.', '_', "__" or dashes between them.
bool IsRepositoryPart(std::string_view text) {
  if (text.empty() || text.find_first_not_of(Cat(kNameCharacters, "._-")) != text.npos)
    return false;
  size_t at = text.find_first_not_of(kNameCharacters);
  if (at == 0) return false;
  while (at != text.npos) {
    const size_t next = text.find_first_of(kNameCharacters, at);
    if (next == text.npos) return false;
    const std::string_view between = text.substr(at, next - at);
    const bool dashes = between.find_first_not_of('-') == between.npos;
    if (!dashes && between != "." && between != "_" && between != "__") return false;
    at = text.find_first_not_of(kNameCharacters, next);
  }
  return true;
}

}  // namespace

Status CheckIdentity(const std::string& text) {
  const std::vector<std::string> parts = Split(text, '/');
  const bool good = text.size() <= kMaxIdentity && parts.size() >= 2 && IsHost(parts[0]) &&
                    std::all_of(parts.begin() + 1, parts.end(), IsRepositoryPart);
  if (good) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("identity: expected host/repository without a tag, found ", Quoted(text)),
               "write it as in registry.example/team/model"};
}

std::string WritePayload(const SignedClaim& claim) {
  const Json payload = {{"critical",
                         {{"identity", {{"docker-reference", claim.identity}}},
                          {"image", {{"docker-manifest-digest", claim.digest}}},
                          {"type", kClaimType}}},
                        {"optional", nullptr}};
  return payload.dump();
}

Result<SignedClaim> ParsePayload(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseJson(where, text));
  if (!document.is_object())
    return Error{Code::kCorrupt,
                 Cat(where, ": expected an object, found ", DescribeJson(document))};
  SHARD_TRY(const Json* critical, JsonFields(document, where).Object("critical"));
  const std::string place = Cat(where, ": critical");
  const JsonFields fields(*critical, place);
  SHARD_TRY(const std::string type, fields.String("type"));
  if (type != kClaimType)
    return Error{Code::kUnsupported,
                 Cat(place, ": type: expected ", Quoted(kClaimType), ", found ", Quoted(type))};
  SHARD_TRY(const Json* identity, fields.Object("identity"));
  SHARD_TRY(const Json* image, fields.Object("image"));
  SignedClaim claim;
  SHARD_TRY(claim.identity,
            JsonFields(*identity, Cat(place, ": identity")).String("docker-reference"));
  const JsonFields in_image(*image, Cat(place, ": image"));
  SHARD_TRY(claim.digest, in_image.String("docker-manifest-digest"));
  if (IsDigest(claim.digest)) return claim;
  return in_image.Wrong("docker-manifest-digest", "sha256: and 64 hexadecimal digits");
}

}  // namespace moepack::registry
