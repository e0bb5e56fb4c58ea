#include "manifest/registry/pull.h"

#include <algorithm>

#include "libshard/base/digest.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/model_signature.h"
#include "manifest/document/use_overlay.h"
#include "manifest/registry/pull_files.h"
#include "manifest/registry/pull_selection.h"
#include "manifest/registry/pull_target.h"
#include "manifest/registry/sign/oms.h"
#include "manifest/write/output_path.h"

namespace moepack::registry {
namespace {

using manifest::PullLock;

// Without the secrets that an address may contain.
std::string ShownReference(const Store& store, const Reference& reference) {
  return reference.kind == Reference::Kind::kFiles ? store.name() : ReferenceText(reference);
}

// How a lock spells a reference: without its digest, and with a tag unless only a digest was named.
std::string LockedName(const Store& store, const Reference& from) {
  return ShownReference(store, from.With(from.digest.empty() ? from.tag_or_default() : from.tag));
}

// What the output was pulled from takes precedence over what a tag names now.
struct Pinned {
  Reference reference;
  bool locked = false;  // the output was pulled from there, so its digest was used
  std::vector<std::string> warnings;
};
Pinned PinToLock(const Store& store, const Reference& from, const std::optional<PullLock>& lock,
                 const PullOptions& options) {
  Pinned pinned;
  pinned.reference = from;
  const bool same = lock && lock->reference == LockedName(store, from);
  if (!same || options.update || options.force || !from.digest.empty()) return pinned;
  const auto now = store.FindTag(from.tag_or_default());
  pinned.reference = from.With(from.tag, lock->digest);
  pinned.locked = true;
  if (now && now->digest != lock->digest) {
    pinned.warnings.push_back(Cat(lock->reference, ": the tag has moved: pulled was ", lock->digest,
                                  ", there is ", now->digest, "; --update takes it"));
  }
  return pinned;
}

// The tag is resolved once, so that what is checked is what is pulled. `signatures` are those that
// were checked.
Result<OpenedSet> OpenSigned(const Store& store, Reference reference, const PullOptions& options,
                             std::vector<GoodSignature>& signatures) {
  if (reference.digest.empty()) {
    SHARD_TRY(const BlobRecord found, store.FindTag(reference.tag_or_default()));
    SHARD_CHECK(CheckIsManifest(store, found));
    reference.digest = found.digest;
  }
  if (!options.keys.empty()) {
    SHARD_TRY(SignatureReport report, VerifySignatures(store, reference.digest, options.keys));
    signatures = std::move(report.good);
  }
  return OpenSet(store, reference);
}

Result<OpenedSet> OpenPinned(const Store& store, const Pinned& pinned, const PullOptions& options,
                             std::vector<GoodSignature>& signatures) {
  auto set = OpenSigned(store, pinned.reference, options, signatures);
  if (set || !pinned.locked || set.error().code != Code::kNotFound) return set;
  Error error = std::move(set).error();
  error.hint =
      "the output was pulled from it, and it no longer exists: --update takes what the reference "
      "names now";
  return error;
}

// Without requested groups, those that the output was pulled with, from whatever reference. A view
// has only its own, whatever else the output has.
Result<std::vector<uint32_t>> GroupsToPull(const std::string& where, const std::string& out,
                                           const OpenedSet& set, const PullOptions& options,
                                           const std::optional<PullLock>& lock) {
  const bool locked = options.groups.empty() && lock && !set.view_group;
  auto groups = ChooseGroups(where, set, locked ? lock->groups : options.groups);
  if (groups || !locked || lock->groups.empty()) return groups;
  Error error = std::move(groups).error();
  error.hint = Cat(out, "/", manifest::kPullLockFile,
                   " names the groups of the output: --group names others");
  return error;
}

Status CheckOneGroup(const std::vector<uint32_t>& groups, const PullOptions& options) {
  if (options.node.empty() || groups.size() == 1) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("--assemble: expected one group, found ", GroupsText(groups)),
               "name one with --group, or pull without --assemble, then run assemble for each"};
}

// The lock may have been edited.
Result<OverlayChoice> LockedOverlay(const std::string& out, const OpenedSet& set,
                                    const PullLock& lock) {
  const Plan& plan = set.manifest.plan;
  const bool there = !lock.overlay || lock.overlay == CurrentOverlay(set.oci) ||
                     plan.FindOverlay(*lock.overlay) != nullptr;
  if (there) return lock.overlay;
  return Error{Code::kCorrupt,
               Cat(out, "/", manifest::kPullLockFile, ": overlay: expected ",
                   manifest::OverlayList(plan), ", found ", Quoted(*lock.overlay)),
               "--overlay chooses one of the set, or none"};
}

// Without a request for overlays, the one that the output has of the same set. For another set it
// is the current one, but an output without an overlay stays without.
Result<OverlayChoice> AskedOverlay(const std::string& where, const std::string& out,
                                   const OpenedSet& set, const PullOptions& options,
                                   const PullTarget& target) {
  if (!options.overlay) return OverlayChoice();
  const std::optional<PullLock>& lock = target.lock;
  if (!options.overlay_version.empty() || !lock)
    return ChooseOverlay(where, set, options.overlay_version);
  const bool same_set = target.state == PullTarget::State::kSame || lock->digest == set.digest;
  if (same_set) return LockedOverlay(out, set, *lock);
  return lock->overlay ? CurrentOverlay(set.oci) : OverlayChoice();
}

std::string StagingIdentityOf(const std::string& digest, const std::vector<uint32_t>& groups) {
  std::string identity = digest;
  for (const uint32_t group : groups) identity += Cat(" ", group);
  return Sha256Hex(identity);
}

// Adds the placed files to the existing directory; each appears complete, the lock last.
Status Extend(const std::string& out, const PullReport& report, StagingDirectory& staging) {
  std::vector<std::string> names;
  for (const PullReport::File& file : report.files) {
    if (!file.there) names.push_back(file.name);
  }
  names.push_back(manifest::kPullLockFile);
  SHARD_TRY(const InsideDirectory directory, InsideDirectory::Open(out));
  SHARD_CHECK(staging.MoveInto(directory, names));
  return staging.Discard();
}

// The lock of an extended output also names what it had before.
PullLock MakeLock(const Store& store, const Reference& from, const PullReport& report,
                  const PullTarget& target, const OverlayChoice& overlay) {
  PullLock lock{LockedName(store, from), report.digest, report.groups, overlay};
  if (target.lock && report.extended) {
    lock.groups.insert(lock.groups.end(), target.lock->groups.begin(), target.lock->groups.end());
    if (!lock.overlay) lock.overlay = target.lock->overlay;
  }
  std::sort(lock.groups.begin(), lock.groups.end());
  lock.groups.erase(std::unique(lock.groups.begin(), lock.groups.end()), lock.groups.end());
  return lock;
}

// About the signature of the files that the output had before it was extended: still good if this
// pull only brought back what was signed.
std::vector<std::string> StaleSignature(const std::string& out, const PullReport& report) {
  std::vector<FileDigest> placed;
  for (const PullReport::File& file : report.files) {
    if (!file.there) placed.push_back({file.name, HexOf(file.digest)});
  }
  const auto directory = InsideDirectory::Open(out);
  if (placed.empty() || !directory || !manifest::HasSignature(*directory)) return {};
  const auto text = directory->ReadText(manifest::kSignatureFile, manifest::kMaxModelSignature);
  if (text && ListsFiles(*text, placed)) return {};
  return {manifest::StaleSignatureWarning(out)};
}

// About the signature that is removed with the directory that this pull replaces.
std::vector<std::string> RemovedSignature(const std::string& out) {
  const auto directory = InsideDirectory::Open(out);
  if (!directory || !manifest::HasSignature(*directory)) return {};
  return {manifest::RemovedSignatureWarning(out)};
}

Status WriteOutput(const Store& store, const std::string& out, bool replaces, const PullLock& lock,
                   StagingDirectory& staging, PullFiles& files) {
  PullReport& report = files.report();
  SHARD_CHECK(staging.Begin(StagingIdentityOf(report.digest, report.groups)));
  const Status placed = files.Place(staging);
  if (!placed) {
    // Files from another machine are not fetched again.
    if (!store.blobs().LocalPath("") && placed.error().code != Code::kCorrupt) staging.Keep();
    return placed;
  }
  SHARD_CHECK(staging.WriteText(manifest::kPullLockFile, manifest::WriteLock(lock)));
  const std::vector<std::string> about_signature =
      report.extended ? StaleSignature(out, report) : RemovedSignature(out);
  SHARD_CHECK(report.extended ? Extend(out, report, staging) : staging.Publish(replaces));
  for (const auto* warnings : {&about_signature, &staging.warnings()})
    report.warnings.insert(report.warnings.end(), warnings->begin(), warnings->end());
  return Ok();
}

// An update replaces only what was pulled.
bool Replaces(const PullOptions& options, const PullTarget& target) {
  return options.force || (options.update && target.lock);
}

// The output is another distribution; if it was pulled, an update is the right way.
Status CheckOther(const std::string& out, const std::string& where, const OpenedSet& set,
                  const PullOptions& options, const PullTarget& target) {
  const bool replaces = options.dry_run || Replaces(options, target);
  if (replaces || !target.lock) return manifest::CheckReplaceable(out, replaces);
  if (target.lock->digest == set.digest) {
    return Error{Code::kInvalidArgument,
                 Cat(out, ": already exists: ", manifest::kManifestFile,
                     ": expected sha256:", Sha256Hex(set.distribution_text),
                     " as it was pulled, found sha256:", target.distribution_sha256),
                 "it was changed since, by eval --record for instance: choose another output, or "
                 "--update, which replaces it with what was published"};
  }
  return Error{Code::kInvalidArgument,
               Cat(out, ": already exists: expected what ", where, " names, ", set.digest,
                   ", found ", target.lock->digest, " of ", Shown(target.lock->reference)),
               "--update replaces it, and keeps the files that both have"};
}

// Groups that were pulled before, and that a new version in their place does not have.
std::vector<std::string> LeftOutWarnings(const std::string& out, const PullOptions& options,
                                         const PullTarget& target,
                                         const std::vector<uint32_t>& groups) {
  if (!options.update || !target.lock || target.state != PullTarget::State::kOther) return {};
  std::vector<uint32_t> left_out;
  for (const uint32_t group : target.lock->groups) {
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) left_out.push_back(group);
  }
  if (left_out.empty()) return {};
  return {Cat(out, ": the update leaves out ", GroupsText(left_out),
              ", which it had: name all that it should have with --group")};
}

Status CheckOutput(const Store& store, const std::string& out) {
  const auto local = store.blobs().LocalPath("");
  return local ? manifest::CheckOutsideDistribution(out, *local) : Ok();
}

Status CheckNode(const Store& store, const std::string& out, const PullOptions& options) {
  if (options.node.empty()) return Ok();
  SHARD_CHECK(manifest::CheckOutsideDistribution(options.node, out));
  SHARD_CHECK(CheckOutput(store, options.node));
  return manifest::CheckReplaceable(options.node, options.force || options.dry_run);
}

}  // namespace

uint64_t PullReport::total_bytes() const {
  uint64_t bytes = 0;
  for (const File& file : files) bytes += file.bytes;
  return bytes;
}

uint64_t PullReport::there_bytes() const {
  uint64_t bytes = 0;
  for (const File& file : files) bytes += file.there ? file.bytes : 0;
  return bytes;
}

uint64_t PullReport::new_bytes() const { return total_bytes() - there_bytes() - resumed_bytes; }

Result<PullReport> Pull(const Reference& from, const std::string& out, const PullOptions& options) {
  if (!options.groups.empty()) SHARD_CHECK(CheckOneGroup(options.groups, options));
  SHARD_TRY(const StorePtr store, OpenStore(from, options.access));
  SHARD_CHECK(CheckOutput(*store, out));
  SHARD_CHECK(CheckNode(*store, out, options));
  std::optional<StagingDirectory> staging;
  if (!options.dry_run) {
    // The existing output is checked under the lock: another run may be about to change it.
    SHARD_TRY(StagingDirectory opened, StagingDirectory::Open(out, manifest::OwnOutput()));
    staging.emplace(std::move(opened));
  }
  SHARD_TRY(const std::optional<PullLock> lock, manifest::ReadLock(out));
  const Pinned pinned = PinToLock(*store, from, lock, options);
  std::vector<GoodSignature> signatures;
  SHARD_TRY(const OpenedSet set, OpenPinned(*store, pinned, options, signatures));
  const std::string where = ShownReference(*store, from);
  SHARD_TRY(const std::vector<uint32_t> groups, GroupsToPull(where, out, set, options, lock));
  SHARD_CHECK(CheckOneGroup(groups, options));
  SHARD_TRY(const PullTarget target, LookAtTarget(out, {set.digest, set.distribution_text}));
  if (target.state == PullTarget::State::kOther)
    SHARD_CHECK(CheckOther(out, where, set, options, target));
  SHARD_TRY(const OverlayChoice overlay, AskedOverlay(where, out, set, options, target));
  PullFiles files(*store, set, options);
  PullReport& report = files.report();
  report.digest = set.digest;
  report.groups = groups;
  report.signatures = std::move(signatures);
  report.overlay = overlay == CurrentOverlay(set.oci) ? OverlayChoice("") : overlay;
  report.warnings = pinned.warnings;
  for (const std::string& warning : LeftOutWarnings(out, options, target, groups))
    report.warnings.push_back(warning);
  SHARD_CHECK(files.MakePlan(SelectLayers(set.oci.layers, groups, overlay), out, target));
  if (options.planned) options.planned(report);
  if (staging) {
    SHARD_CHECK(files.CheckSpace(out));
    const PullLock written = MakeLock(*store, from, report, target, overlay);
    SHARD_CHECK(WriteOutput(*store, out, Replaces(options, target), written, *staging, files));
  }
  return std::move(report);
}

}  // namespace moepack::registry
