// ParseSignatureManifest and ParsePayload: a parsed document can be written and read back, and
// holds no more signatures than anybody should check.
#include "manifest/registry/sign/signature_manifest.h"

#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/sign/simple_signing.h"
#include "tests/fuzz/target.h"

namespace signature_manifest_target {

constexpr const char* kWhere = "damaged/layout";

std::vector<std::string> Seeds() {
  using namespace moepack::registry;
  const std::string payload = WritePayload({kLayoutIdentity, DigestOf(std::string(64, 'a'))});
  const std::string one = AddSignature(nullptr, payload, "a signature").manifest.text;
  const auto there = ParseSignatureManifest(kWhere, one);
  if (!there) return {};
  return {one, AddSignature(&*there, payload, "another").manifest.text, payload};
}

std::string CheckPayload(std::string_view input) {
  using namespace moepack::registry;
  const auto claim = ParsePayload(kWhere, input);
  if (!claim) return fuzz::ErrorProblem(claim.error(), kWhere);
  if (!IsDigest(claim->digest)) return moepack::Cat("no digest: ", claim->digest);
  const auto again = ParsePayload(kWhere, WritePayload(*claim));
  return again && again->digest == claim->digest ? "" : "another payload after writing";
}

std::string Check(std::string_view input) {
  using namespace moepack::registry;
  if (const std::string problem = CheckPayload(input); !problem.empty()) return problem;
  const auto read = ParseSignatureManifest(kWhere, input);
  if (!read) return fuzz::ErrorProblem(read.error(), kWhere);
  if (SignaturesOf(*read).size() > kMaxSignatures) return "too many signatures";
  const SignatureBlobs added = AddSignature(&*read, "payload", "signature");
  if (read->layers.size() == kMaxSignatures) return "";
  const auto again = ParseSignatureManifest(kWhere, added.manifest.text);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  const auto before = SignaturesOf(*read), after = SignaturesOf(*again);
  return after.size() == before.size() + 1 && after.back().signature == "signature"
             ? ""
             : "a signature was lost";
}

constexpr fuzz::Target kTarget{Check, Seeds, 2000, 500};

}  // namespace signature_manifest_target

FUZZ_JSON_TARGET(FuzzSignatureManifest, signature_manifest_target::kTarget)
