#include "manifest/document/model_signature.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "libshard/base/text/base64.h"
#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

constexpr size_t kMaxSignedValues = 1u << 20;

Result<std::string> Base64Field(const JsonFields& fields, const char* key) {
  SHARD_TRY(const std::string text, fields.String(key));
  std::optional<std::string> bytes = DecodeExactBase64(text);
  if (bytes) return *std::move(bytes);
  return Error{Code::kCorrupt, Cat(fields.where(), ": ", key, ": expected base64")};
}

}  // namespace

Result<Json> ParseSigned(const std::string& where, std::string_view text) {
  return ParseJsonObject(where, text, kMaxSignedValues);
}

Status CheckText(const JsonFields& fields, const char* key, std::string_view expected) {
  SHARD_TRY(const std::string found, fields.String(key));
  if (found == expected) return Ok();
  return Error{Code::kUnsupported, Cat(fields.where(), ": ", key, ": expected ", Quoted(expected),
                                       ", found ", Quoted(found))};
}

Result<const Json*> OnlyEntry(const JsonFields& fields, const char* key) {
  SHARD_TRY(const Json* list, fields.Array(key));
  if (list->size() == 1 && (*list)[0].is_object()) return &(*list)[0];
  return fields.Wrong(key, "a list of one object");
}

Result<SignatureBundle> ParseSignatureBundle(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseSigned(where, text));
  const JsonFields bundle(document, where);
  SHARD_CHECK(CheckText(bundle, "mediaType", kBundleType));
  SHARD_TRY(const Json* object, bundle.Object("dsseEnvelope"));
  const JsonFields envelope(*object, Cat(where, ": dsseEnvelope"));
  SHARD_CHECK(CheckText(envelope, "payloadType", kEnvelopeType));
  SHARD_TRY(const Json* signature, OnlyEntry(envelope, "signatures"));
  SignatureBundle opened;
  SHARD_TRY(opened.payload, Base64Field(envelope, "payload"));
  SHARD_TRY(opened.signature,
            Base64Field(JsonFields(*signature, Cat(where, ": signature")), "sig"));
  return opened;
}

bool IsModelSignature(std::string_view text) {
  const auto bundle = ParseSignatureBundle("", text);
  if (!bundle) return false;
  const auto statement = ParseSigned("", bundle->payload);
  return statement && TextMember(*statement, "predicateType") == kModelSigningType;
}

}  // namespace moepack::manifest
