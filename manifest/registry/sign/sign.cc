#include "manifest/registry/sign/sign.h"

#include <algorithm>
#include <map>
#include <random>
#include <utility>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/any_manifest.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/sign/simple_signing.h"
#include "manifest/registry/sign/verify_signatures.h"

namespace moepack::registry {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr int kSigningTries = 10;

// Which view of `set_digest` a manifest of the store says it is: "007"; no value for none.
Result<std::optional<std::string>> ViewGroupOf(const Store& store, const Tagged& listed,
                                               const std::string& set_digest) {
  const std::optional<std::string> none;
  SHARD_TRY(const std::string text, store.ReadManifest(listed.manifest));
  const auto oci = ParseOciManifest(Cat(store.name(), ": manifest ", listed.manifest.digest), text);
  if (!oci && oci.error().code == Code::kUnsupported) return none;
  if (!oci) return oci.error();
  if (AnnotationOf(oci->annotations, kViewOfKey) != set_digest) return none;
  return std::optional(AnnotationOf(oci->annotations, kViewGroupKey));
}

// Each once, the requested one first, then its views in the order of their tags. A view that has
// several tags is named by the one that belongs to the requested tag.
Result<std::vector<Tagged>> ManifestsToSign(const Store& store, const Tagged& manifest,
                                            bool views) {
  SHARD_TRY(const std::string text, store.ReadManifest(manifest.manifest));
  const std::string where = store.NameOf(manifest.manifest);
  SHARD_CHECK(ManifestTypeOf(where, text));
  SHARD_TRY(const bool with_views, WithViews(where, text, views));
  std::vector<Tagged> all = {manifest};
  if (!with_views) return all;
  struct View {
    Tagged tagged;
    std::string own_tag;  // "v1-g007", if it has that
  };
  std::map<std::string, std::optional<View>> by_digest;
  SHARD_TRY(const std::vector<Tagged> listed, store.List());
  for (const Tagged& one : listed) {
    const std::string& digest = one.manifest.digest;
    if (IsSignatureTag(one.tag) || digest == manifest.manifest.digest) continue;
    if (!one.manifest.media_type.empty() && one.manifest.media_type != kManifestType) continue;
    const auto [place, is_new] = by_digest.try_emplace(digest);
    if (is_new) {
      SHARD_TRY(const auto group, ViewGroupOf(store, one, manifest.manifest.digest));
      if (group) place->second = View{one, Cat(manifest.tag, "-g", *group)};
    }
    if (place->second && one.tag == place->second->own_tag) place->second->tagged = one;
  }
  for (auto& [digest, view] : by_digest) {
    if (view) all.push_back(std::move(view->tagged));
  }
  std::sort(all.begin() + 1, all.end(),
            [](const Tagged& a, const Tagged& b) { return a.tag < b.tag; });
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

// Adds everything except the tag that makes it visible, which must then name what was read here.
Result<NewTag> WriteSignature(WritableStore& store, const std::string& digest,
                              const PrivateKey& key, const std::string& identity) {
  const std::string payload = WritePayload({identity, digest});
  SHARD_TRY(const std::string signature, key.Sign(payload));
  SHARD_TRY(const std::optional<FoundSignatures> there, FindSignatures(store, digest));
  const std::string tag = SignatureTag(digest);
  if (there && there->oci.layers.size() >= kMaxSignatures)
    return Error{Code::kUnsupported,
                 Cat(store.name(), ": manifest ", tag,
                     ": signatures: expected room for one more, found ", there->oci.layers.size())};
  const SignatureBlobs blobs = AddSignature(there ? &there->oci : nullptr, payload, signature);
  SHARD_CHECK(store.AddText(blobs.payload.blob, blobs.payload.text));
  SHARD_CHECK(store.AddText(blobs.config.blob, blobs.config.text));
  SHARD_CHECK(store.AddManifest(blobs.manifest.blob, blobs.manifest.text));
  return NewTag{tag, blobs.manifest.blob, blobs.manifest.text, there ? there->digest : ""};
}

// Those of `digests` without a signature of this key.
Result<std::vector<std::string>> Unsigned(const Store& store, const PublicKey& key,
                                          const std::string& identity,
                                          const std::vector<std::string>& digests) {
  std::vector<std::string> missing;
  for (const std::string& digest : digests) {
    SHARD_TRY(const bool is_there, IsSigned(store, digest, key, identity));
    if (!is_there) missing.push_back(digest);
  }
  return missing;
}

// Writes the signatures of `missing`, and returns those of `ours` that are not there when everybody
// who read before this was written has written, too.
Result<std::vector<std::string>> TryToSign(WritableStore& store, const PrivateKey& key,
                                           const std::string& identity,
                                           const std::vector<std::string>& missing,
                                           const std::vector<std::string>& ours) {
  const auto begin = steady_clock::now();
  const bool alone = store.settling().count() == 0;
  std::vector<NewTag> tags;
  for (const std::string& digest : missing) {
    SHARD_TRY(NewTag tag, WriteSignature(store, digest, key, identity));
    tags.push_back(std::move(tag));
    if (alone) continue;
    // Soon after what is there was read.
    SHARD_CHECK(store.SetTags(tags));
    tags.clear();
  }
  if (alone) SHARD_CHECK(store.SetTags(tags));
  SHARD_TRY(std::vector<std::string> lost, Unsigned(store, key.public_key(), identity, ours));
  const milliseconds settling = store.settling();
  if (!lost.empty() || settling.count() == 0) return lost;
  // Others may be as slow as this run was.
  const auto took = std::chrono::duration_cast<milliseconds>(steady_clock::now() - begin);
  SHARD_CHECK(WaitFor(settling + took / static_cast<int64_t>(missing.size())));
  return Unsigned(store, key.public_key(), identity, ours);
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
  std::vector<std::string> ours;
  for (const SignedManifest& one : plan) {
    if (!one.was_signed) ours.push_back(one.digest);
  }
  std::vector<std::string> missing = ours;
  std::minstd_rand random(std::random_device{}());
  for (int tries = 0; !missing.empty() && tries < kSigningTries; ++tries) {
    // Signers that met do not meet again at the same moment.
    const auto most = static_cast<uint64_t>(tries * store.settling().count() / 4);
    if (most > 0) SHARD_CHECK(WaitFor(milliseconds(random() % most)));
    SHARD_TRY(missing, TryToSign(store, key, options.identity, missing, ours));
  }
  if (missing.empty()) return plan;
  return Error{Code::kUnavailable,
               Cat(Shown(store.name()), ": ", SignatureTag(missing[0]),
                   ": expected the signature that was written, found another manifest ",
                   kSigningTries, " times"),
               "somebody else signs at the same time: run the same command again"};
}

}  // namespace moepack::registry
