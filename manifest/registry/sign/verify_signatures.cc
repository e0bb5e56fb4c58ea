#include "manifest/registry/sign/verify_signatures.h"

#include <algorithm>
#include <utility>

#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

// The result for one signature: good, or why it does not count.
struct Outcome {
  std::optional<GoodSignature> good;
  std::string reason;
};

// The store could not be reached, so nobody knows what it holds.
bool IsOutage(Code code) {
  return code == Code::kIo || code == Code::kUnavailable || code == Code::kInterrupted;
}

Result<Outcome> CheckSignature(const Store& store, const StoredSignature& stored,
                               const std::string& digest, const std::vector<PublicKey>& keys) {
  if (!stored.signature) return Outcome{std::nullopt, "not base64"};
  const auto payload = store.ReadBlob(stored.payload, kMaxPayload);
  if (!payload) {
    if (IsOutage(payload.error().code)) return payload.error();
    return Outcome{std::nullopt, "payload missing or corrupt"};
  }
  const auto key = std::find_if(keys.begin(), keys.end(), [&](const PublicKey& one) {
    return one.Verify(*payload, *stored.signature);
  });
  if (key == keys.end()) return Outcome{std::nullopt, "key unknown"};
  const auto claim = ParsePayload("payload", *payload);
  if (!claim) return Outcome{std::nullopt, "signs something else"};
  if (claim->digest != digest) return Outcome{std::nullopt, Cat("signs ", claim->digest)};
  return Outcome{
      GoodSignature{key->name(), key->id(), key->type(), claim->identity, stored.payload.digest},
      ""};
}

// "1 signature found, key unknown"; each reason is named once.
std::string FoundText(uint64_t found, std::vector<std::string> reasons) {
  if (found == 0) return "no signature found";
  std::sort(reasons.begin(), reasons.end());
  reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
  return Cat(Plural(found, "signature"), " found, ", moepack::Join(reasons, ", "));
}

Error NoGoodSignature(const Store& store, const std::string& digest,
                      const std::vector<PublicKey>& keys, const std::string& found) {
  return {Code::kMismatch,
          Cat(Shown(store.name()), ": no valid signature for ", digest, " by ",
              keys.size() == 1 ? keys[0].name() : Cat("any of ", keys.size(), " keys"), " (", found,
              ")"),
          "its publisher can sign it with `moepack sign`; name the public key of the signer"};
}

}  // namespace

Result<std::optional<FoundSignatures>> FindSignatures(const Store& store,
                                                      const std::string& digest) {
  const std::string tag = SignatureTag(digest);
  const auto manifest = store.FindTag(tag);
  if (!manifest && manifest.error().code == Code::kNotFound)
    return std::optional<FoundSignatures>();
  if (!manifest) return manifest.error();
  SHARD_TRY(const std::string text, store.ReadManifest(*manifest));
  SHARD_TRY(OciManifest oci, ParseSignatureManifest(Cat(store.name(), ": manifest ", tag), text));
  return std::optional(FoundSignatures{manifest->digest, std::move(oci)});
}

Result<SignatureReport> VerifySignatures(const Store& store, const std::string& digest,
                                         const std::vector<PublicKey>& keys) {
  const auto signatures = FindSignatures(store, digest);
  if (!signatures) {
    if (IsOutage(signatures.error().code)) return signatures.error();
    return NoGoodSignature(store, digest, keys, signatures.error().message);
  }
  SignatureReport report{digest, 0, {}};
  std::vector<std::string> reasons;
  if (*signatures) {
    for (const StoredSignature& stored : SignaturesOf((*signatures)->oci)) {
      ++report.found;
      SHARD_TRY(Outcome outcome, CheckSignature(store, stored, digest, keys));
      if (outcome.good)
        report.good.push_back(*std::move(outcome.good));
      else
        reasons.push_back(std::move(outcome.reason));
    }
  }
  if (!report.good.empty()) return report;
  return NoGoodSignature(store, digest, keys, FoundText(report.found, std::move(reasons)));
}

}  // namespace moepack::registry
