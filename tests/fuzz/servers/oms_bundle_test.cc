// OpenOmsBundle: whatever a model.sig holds, it opens only to what the key signed.
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/base64.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/sign/key_files.h"
#include "manifest/registry/sign/oms.h"
#include "tests/fuzz/target.h"

namespace oms_bundle_target {

using namespace moepack::registry;

constexpr const char* kWhere = "damaged/model.sig";
const std::string kSigning = MOEPACK_SOURCE_DIR "/fixtures/signing";

// A bundle that was signed once, so that all runs have the same bytes.
const std::string& Golden() {
  static const std::string golden = fixtures::ReadFile(kSigning + "/model/model.sig");
  return golden;
}

const std::vector<PublicKey>& Keys() {
  static const std::vector<PublicKey> keys =
      ReadPublicKeys(
          {kSigning + "/ed25519-for-tests-only.pub", kSigning + "/p256-for-tests-only.pub"})
          .value();
  return keys;
}

std::vector<std::string> Seeds() { return {Golden()}; }

std::vector<std::string> Refused() {
  const auto other = PrivateKey::Generate(KeyType::kP256);
  OmsStatement statement;
  statement.name = "model";
  const std::string text = WriteOmsStatement(statement);
  return {WriteOmsBundle(text, other.value()).value(), text, "{}"};
}

// The only statement that the keys ever signed.
const std::string& Signed() {
  static const std::string statement = [] {
    const moepack::Json bundle = *moepack::ParseJson(kWhere, Golden());
    const auto payload = bundle["dsseEnvelope"]["payload"].get<std::string>();
    return moepack::DecodeExactBase64(payload).value();
  }();
  return statement;
}

std::string Check(std::string_view input) {
  const auto opened = OpenOmsBundle(kWhere, input, Keys());
  if (!opened) {
    if (opened.error().code != moepack::Code::kMismatch) return "another code than a mismatch";
    return fuzz::ErrorProblem(opened.error(), kWhere);
  }
  if (opened->statement != Signed()) return "a statement that nobody signed: " + opened->statement;
  if (opened->key.id() != Keys()[1].id()) return "a key that signed nothing";
  if (OpenOmsBundle(kWhere, input, {Keys()[0]})) return "opened by another key";
  const auto statement = ParseOmsStatement(kWhere, opened->statement);
  return statement ? "" : statement.error().message;
}

bool Accepts(std::string_view input) { return OpenOmsBundle(kWhere, input, Keys()).has_value(); }

constexpr fuzz::Target kTarget{.check = Check,
                               .seeds = Seeds,
                               .iterations = 3000,
                               .documents = 500,
                               .accepts = Accepts,
                               .refused = Refused};

}  // namespace oms_bundle_target

FUZZ_JSON_TARGET(FuzzOmsBundle, oms_bundle_target::kTarget)
