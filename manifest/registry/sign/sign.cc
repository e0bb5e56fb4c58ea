#include "manifest/registry/sign/sign.h"

#include <algorithm>
#include <set>
#include <utility>

#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/any_manifest.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/sign/simple_signing.h"
#include "manifest/registry/sign/verify_signatures.h"

namespace moepack::registry {
namespace {

constexpr int kSigningTries = 5;

// Whether a manifest of the store says that it is a view of `set_digest`.
Result<bool> IsViewOf(const Store& store, const Tagged& listed, const std::string& set_digest) {
  SHARD_TRY(const std::string text, store.ReadManifest(listed.manifest));
  const auto oci = ParseOciManifest(Cat(store.name(), ": manifest ", listed.manifest.digest), text);
  if (!oci && oci.error().code == Code::kUnsupported) return false;
  if (!oci) return oci.error();
  return AnnotationOf(oci->annotations, kViewOfKey) == set_digest;
}

// Each once, the requested one first.
Result<std::vector<Tagged>> ManifestsToSign(const Store& store, const Tagged& manifest,
                                            bool views) {
  SHARD_TRY(const std::string text, store.ReadManifest(manifest.manifest));
  const std::string where = store.NameOf(manifest.manifest);
  SHARD_CHECK(ManifestTypeOf(where, text));
  SHARD_TRY(const bool with_views, WithViews(where, text, views));
  std::vector<Tagged> all = {manifest};
  if (!with_views) return all;
  std::set<std::string> seen = {manifest.manifest.digest};
  SHARD_TRY(const std::vector<Tagged> listed, store.List());
  for (const Tagged& one : listed) {
    if (IsSignatureTag(one.tag) || !seen.insert(one.manifest.digest).second) continue;
    if (!one.manifest.media_type.empty() && one.manifest.media_type != kManifestType) continue;
    SHARD_TRY(const bool is_view, IsViewOf(store, one, manifest.manifest.digest));
    if (is_view) all.push_back(one);
  }
  return all;
}

Result<bool> IsSigned(const Store& store, const std::string& digest, const PublicKey& key,
                      const std::string& identity) {
  const auto report = VerifySignatures(store, digest, {key});
  if (!report && report.error().code == Code::kMismatch) return false;
  if (!report) return report.error();
  return std::any_of(report->good.begin(), report->good.end(),
                     [&](const GoodSignature& one) { return one.identity == identity; });
}

// Adds everything except the tag that makes it visible.
Result<NewTag> WriteSignature(WritableStore& store, const std::string& digest,
                              const PrivateKey& key, const std::string& identity) {
  const std::string payload = WritePayload({identity, digest});
  SHARD_TRY(const std::string signature, key.Sign(payload));
  SHARD_TRY(const std::optional<OciManifest> there, FindSignatures(store, digest));
  const std::string tag = SignatureTag(digest);
  if (there && there->layers.size() >= kMaxSignatures)
    return Error{Code::kUnsupported,
                 Cat(store.name(), ": manifest ", tag,
                     ": signatures: expected room for one more, found ", there->layers.size())};
  const SignatureBlobs blobs = AddSignature(there ? &*there : nullptr, payload, signature);
  SHARD_CHECK(store.AddText(blobs.payload.blob, blobs.payload.text));
  SHARD_CHECK(store.AddText(blobs.config.blob, blobs.config.text));
  SHARD_CHECK(store.AddManifest(blobs.manifest.blob, blobs.manifest.text));
  return NewTag{tag, blobs.manifest.blob, blobs.manifest.text};
}

}  // namespace

Result<std::vector<SignedManifest>> PlanSigning(const Store& store, const Tagged& manifest,
                                                const PublicKey& key, const SignOptions& options) {
  SHARD_CHECK(CheckIdentity(options.identity));
  SHARD_TRY(const std::vector<Tagged> all, ManifestsToSign(store, manifest, options.views));
  std::vector<SignedManifest> plan;
  for (const Tagged& one : all) {
    const std::string& digest = one.manifest.digest;
    SHARD_TRY(const bool was_signed, IsSigned(store, digest, key, options.identity));
    plan.push_back({one.tag, digest, was_signed, SignatureTag(digest)});
  }
  return plan;
}

Result<std::vector<SignedManifest>> Sign(WritableStore& store, const Tagged& manifest,
                                         const PrivateKey& key, const SignOptions& options) {
  SHARD_TRY(std::vector<SignedManifest> plan,
            PlanSigning(store, manifest, key.public_key(), options));
  std::vector<std::string> missing;
  for (const SignedManifest& one : plan) {
    if (!one.was_signed) missing.push_back(one.digest);
  }
  for (int tries = 0; !missing.empty() && tries < kSigningTries; ++tries) {
    std::vector<NewTag> tags;
    for (const std::string& digest : missing) {
      SHARD_TRY(NewTag tag, WriteSignature(store, digest, key, options.identity));
      tags.push_back(std::move(tag));
    }
    SHARD_CHECK(store.SetTags(tags));
    std::vector<std::string> lost;
    for (const std::string& digest : missing) {
      SHARD_TRY(const bool is_there, IsSigned(store, digest, key.public_key(), options.identity));
      if (!is_there) lost.push_back(digest);
    }
    missing = std::move(lost);
  }
  if (missing.empty()) return plan;
  return Error{Code::kUnavailable,
               Cat(Shown(store.name()), ": ", SignatureTag(missing[0]),
                   ": expected the signature that was written, found another manifest ",
                   kSigningTries, " times"),
               "somebody else signs at the same time: run the same command again"};
}

}  // namespace moepack::registry
