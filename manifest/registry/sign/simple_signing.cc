#include "manifest/registry/sign/simple_signing.h"

#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

constexpr const char* kClaimType = "cosign container image signature";

}  // namespace

Status CheckIdentity(const std::string& text) {
  const auto parsed = ParseReference(Cat("oci://", text));
  if (parsed && parsed->place == text) return Ok();
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
