#include "manifest/registry/pull.h"

#include <algorithm>

#include "libshard/base/digest.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/pull_files.h"
#include "manifest/registry/pull_selection.h"
#include "manifest/registry/pull_target.h"
#include "manifest/registry/sign/verify_signatures.h"
#include "manifest/write/output_path.h"

namespace moepack::registry {
namespace {

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
  bool same = false;    // the output was pulled from there
  bool locked = false;  // so its digest was used
  std::vector<std::string> warnings;
};
Pinned PinToLock(const Store& store, const Reference& from, const std::optional<PullLock>& lock,
                 const PullOptions& options) {
  Pinned pinned;
  pinned.reference = from;
  pinned.same = lock && lock->reference == LockedName(store, from);
  if (!pinned.same || options.update || options.force || !from.digest.empty()) return pinned;
  const auto now = store.FindTag(from.tag_or_default());
  pinned.reference = from.With(from.tag, lock->digest);
  pinned.locked = true;
  if (now && now->digest != lock->digest) {
    pinned.warnings.push_back(Cat(lock->reference, ": the tag has moved: pulled was ", lock->digest,
                                  ", there is ", now->digest, "; --update takes it"));
  }
  return pinned;
}

// The tag is resolved once, so that what is checked is what is pulled.
Result<OpenedSet> OpenSigned(const Store& store, Reference reference, const PullOptions& options) {
  if (reference.digest.empty()) {
    SHARD_TRY(const BlobRecord found, store.FindTag(reference.tag_or_default()));
    SHARD_CHECK(CheckIsManifest(store, found));
    reference.digest = found.digest;
  }
  if (!options.keys.empty()) SHARD_CHECK(RequireSignature(store, reference.digest, options.keys));
  return OpenSet(store, reference);
}

Result<OpenedSet> OpenPinned(const Store& store, const Pinned& pinned, const PullOptions& options) {
  auto set = OpenSigned(store, pinned.reference, options);
  if (set || !pinned.locked || set.error().code != Code::kNotFound) return set;
  Error error = std::move(set).error();
  error.hint =
      "this is what the output was pulled from, and it is there no longer: --update takes "
      "what the reference names now";
  return error;
}

// Without requested groups, those that the output has from the same reference.
std::vector<uint32_t> AskedGroups(const PullOptions& options, const Pinned& pinned,
                                  const std::optional<PullLock>& lock) {
  return options.groups.empty() && pinned.same ? lock->groups : options.groups;
}

// Without a request for overlays, the one that the output has or, for another set, the current one.
Result<OverlayChoice> AskedOverlay(const std::string& where, const OpenedSet& set,
                                   const PullOptions& options, const Pinned& pinned,
                                   const std::optional<PullLock>& lock) {
  if (!options.overlay) return OverlayChoice();
  if (!options.overlay_version.empty() || !lock || !pinned.same)
    return ChooseOverlay(where, set, options.overlay_version);
  if (pinned.locked || !lock->overlay) return lock->overlay;
  return CurrentOverlay(set.oci);
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

Status WriteOutput(const Store& store, const std::string& out, const PullOptions& options,
                   const PullLock& lock, StagingDirectory& staging, PullFiles& files) {
  PullReport& report = files.report();
  SHARD_CHECK(staging.Begin(StagingIdentityOf(report.digest, report.groups)));
  const Status placed = files.Place(staging);
  if (!placed) {
    // Files from another machine are not fetched again.
    if (!store.blobs().LocalPath("") && placed.error().code != Code::kCorrupt) staging.Keep();
    return placed;
  }
  SHARD_CHECK(staging.WriteText(manifest::kPullLockFile, WriteLock(lock)));
  SHARD_CHECK(report.extended ? Extend(out, report, staging)
                              : staging.Publish(options.force || options.update));
  for (const std::string& warning : staging.warnings()) report.warnings.push_back(warning);
  return Ok();
}

// The output is another distribution; if it was pulled, an update is the right way.
Status CheckOther(const std::string& out, const std::string& where, const OpenedSet& set,
                  const PullTarget& target, bool replaces) {
  if (replaces || !target.lock) return manifest::CheckReplaceable(out, replaces);
  return Error{Code::kInvalidArgument,
               Cat(out, ": already exists: expected what ", where, " names, ", set.digest,
                   ", found ", target.lock->digest, " of ", Shown(target.lock->reference)),
               "--update replaces it, and keeps the files that both have"};
}

Status CheckOutput(const Store& store, const std::string& out) {
  const auto local = store.blobs().LocalPath("");
  return local ? manifest::CheckOutsideDistribution(out, *local) : Ok();
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

Result<PullReport> Pull(const Reference& from, const std::string& out, const PullOptions& options) {
  SHARD_TRY(const StorePtr store, OpenStore(from, options.access));
  SHARD_CHECK(CheckOutput(*store, out));
  std::optional<StagingDirectory> staging;
  if (!options.dry_run) {
    // The existing output is checked under the lock: another run may be about to change it.
    SHARD_TRY(StagingDirectory opened, StagingDirectory::Open(out, manifest::OwnOutput()));
    staging.emplace(std::move(opened));
  }
  SHARD_TRY(const std::optional<PullLock> lock, ReadLock(out));
  const Pinned pinned = PinToLock(*store, from, lock, options);
  SHARD_TRY(const OpenedSet set, OpenPinned(*store, pinned, options));
  const std::string where = ShownReference(*store, from);
  SHARD_TRY(const OverlayChoice overlay, AskedOverlay(where, set, options, pinned, lock));
  SHARD_TRY(const std::vector<uint32_t> groups,
            ChooseGroups(where, set, AskedGroups(options, pinned, lock)));
  SHARD_TRY(const PullTarget target, LookAtTarget(out, set.distribution_text));
  const bool replaces = options.force || options.update || options.dry_run;
  if (target.state == PullTarget::State::kOther)
    SHARD_CHECK(CheckOther(out, where, set, target, replaces));
  PullFiles files(*store, set, options);
  PullReport& report = files.report();
  report.digest = set.digest;
  report.groups = groups;
  report.warnings = pinned.warnings;
  SHARD_CHECK(files.MakePlan(SelectLayers(set.oci.layers, groups, overlay), out, target));
  if (options.planned) options.planned(report);
  if (staging) {
    SHARD_CHECK(files.CheckSpace(out));
    const PullLock written = MakeLock(*store, from, report, target, overlay);
    SHARD_CHECK(WriteOutput(*store, out, options, written, *staging, files));
  }
  return std::move(report);
}

}  // namespace moepack::registry
