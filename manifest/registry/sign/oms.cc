#include "manifest/registry/sign/oms.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "libshard/base/digest.h"
#include "libshard/base/text/base64.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "manifest/document/model_signature.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

using manifest::CheckText;
using manifest::kBundleType;
using manifest::kEnvelopeType;
using manifest::kModelSigningType;
using manifest::OnlyEntry;
using manifest::ParseSigned;

constexpr const char* kStatementType = "https://in-toto.io/Statement/v1";

// The signed part of a DSSE envelope: its type and its bytes, each with its length.
std::string PreAuthentication(std::string_view type, std::string_view payload) {
  return Cat("DSSEv1 ", type.size(), " ", type, " ", payload.size(), " ", payload);
}

// How the files were hashed, and which were left out.
Result<std::vector<std::string>> ParseSerialization(const JsonFields& predicate) {
  SHARD_TRY(const Json* object, predicate.Object("serialization"));
  const JsonFields fields(*object, Cat(predicate.where(), ": serialization"));
  SHARD_CHECK(CheckText(fields, "method", "files"));
  SHARD_CHECK(CheckText(fields, "hash_type", "sha256"));
  std::vector<std::string> ignored;
  if (!fields.Has("ignore_paths")) return ignored;
  SHARD_TRY(const Json* paths, fields.Array("ignore_paths"));
  for (const Json& path : *paths) {
    if (!path.is_string()) return fields.Wrong("ignore_paths", "a list of paths");
    ignored.push_back(path.get<std::string>());
  }
  return ignored;
}

Result<std::vector<FileDigest>> ParseResources(const JsonFields& predicate) {
  SHARD_TRY(const Json* resources, predicate.Array("resources"));
  std::vector<FileDigest> files;
  for (const Json& resource : *resources) {
    const std::string place = Cat(predicate.where(), ": resource ", files.size());
    if (!resource.is_object())
      return Error{Code::kCorrupt,
                   Cat(place, ": expected an object, found ", DescribeJson(resource))};
    const JsonFields fields(resource, place);
    SHARD_CHECK(CheckText(fields, "algorithm", "sha256"));
    FileDigest file;
    SHARD_TRY(file.name, fields.String("name"));
    SHARD_TRY(file.sha256, fields.String("digest"));
    if (!IsDigest(DigestOf(file.sha256))) return fields.Wrong("digest", "64 hexadecimal digits");
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace

std::string WriteOmsStatement(const OmsStatement& statement) {
  Json resources = Json::array();
  for (const FileDigest& file : statement.files)
    resources.push_back({{"name", file.name}, {"algorithm", "sha256"}, {"digest", file.sha256}});
  const Json subject = {{"name", statement.name},
                        {"digest", {{"sha256", RootDigest(statement.files)}}}};
  const Json serialization = {{"method", "files"},
                              {"hash_type", "sha256"},
                              {"allow_symlinks", false},
                              {"ignore_paths", statement.ignored}};
  const Json document = {
      {"_type", kStatementType},
      {"subject", Json::array({subject})},
      {"predicateType", kModelSigningType},
      {"predicate", {{"serialization", serialization}, {"resources", std::move(resources)}}}};
  return document.dump();
}

Result<OmsStatement> ParseOmsStatement(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseSigned(where, text));
  const JsonFields fields(document, where);
  SHARD_CHECK(CheckText(fields, "_type", kStatementType));
  SHARD_CHECK(CheckText(fields, "predicateType", kModelSigningType));
  SHARD_TRY(const Json* subject_object, OnlyEntry(fields, "subject"));
  const JsonFields subject(*subject_object, Cat(where, ": subject"));
  SHARD_TRY(const Json* predicate_object, fields.Object("predicate"));
  const JsonFields predicate(*predicate_object, Cat(where, ": predicate"));
  OmsStatement statement;
  SHARD_TRY(statement.name, subject.String("name"));
  SHARD_TRY(statement.ignored, ParseSerialization(predicate));
  SHARD_TRY(statement.files, ParseResources(predicate));
  SHARD_TRY(const Json* digest, subject.Object("digest"));
  const JsonFields root(*digest, Cat(where, ": subject: digest"));
  SHARD_TRY(const std::string found, root.String("sha256"));
  if (found == RootDigest(statement.files)) return statement;
  return root.Wrong("sha256", "the digest of the resources");
}

bool ListsFiles(std::string_view bundle, const std::vector<FileDigest>& files) {
  const auto opened = manifest::ParseSignatureBundle("", bundle);
  if (!opened) return false;
  const auto statement = ParseOmsStatement("", opened->payload);
  if (!statement) return false;
  std::map<std::string, std::string> listed;
  for (const FileDigest& file : statement->files) listed[file.name] = file.sha256;
  return std::all_of(files.begin(), files.end(), [&](const FileDigest& file) {
    if (IsIgnored(file.name, statement->ignored)) return true;
    const auto found = listed.find(file.name);
    return found != listed.end() && found->second == file.sha256;
  });
}

Result<std::string> WriteOmsBundle(const std::string& statement, const PrivateKey& key) {
  const PublicKey& public_key = key.public_key();
  if (public_key.type() != KeyType::kP256)
    return Error{Code::kInvalidArgument,
                 Cat(public_key.name(), ": expected an ECDSA P-256 key, found one of ",
                     KeyTypeName(public_key.type())),
                 "OpenSSF Model Signing has no Ed25519: `moepack keygen` makes P-256 keys"};
  SHARD_TRY(const std::string signature, key.Sign(PreAuthentication(kEnvelopeType, statement)));
  // Both members are present but empty: sigstore-models accepts no bundle without them.
  const Json signed_by = {{"sig", EncodeBase64(signature)}, {"keyid", ""}};
  const Json envelope = {{"payload", EncodeBase64(statement)},
                         {"payloadType", kEnvelopeType},
                         {"signatures", Json::array({signed_by})}};
  const Json material = {{"publicKey", {{"hint", Sha256Hex(public_key.pem())}}},
                         {"tlogEntries", Json::array()}};
  const Json bundle = {
      {"mediaType", kBundleType}, {"verificationMaterial", material}, {"dsseEnvelope", envelope}};
  return bundle.dump() + "\n";
}

Result<OmsSigned> OpenOmsBundle(const std::string& where, std::string_view text,
                                const std::vector<PublicKey>& keys) {
  const auto opened = manifest::ParseSignatureBundle(where, text);
  if (!opened) return Error{Code::kMismatch, opened.error().message};
  const std::string bytes = PreAuthentication(kEnvelopeType, opened->payload);
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const PublicKey& one) {
    return one.type() == KeyType::kP256 && one.Verify(bytes, opened->signature);
  });
  if (key != keys.end()) return OmsSigned{opened->payload, *key};
  return Error{Code::kMismatch,
               Cat(where, ": no valid signature by ",
                   keys.size() == 1 ? keys[0].name() : Cat("any of ", keys.size(), " keys")),
               "name the public key of who signed it; model.sig takes ECDSA P-256 keys only"};
}

}  // namespace moepack::registry
