#include "manifest/registry/pull.h"

#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "libshard/base/byte_progress.h"
#include "libshard/base/digest.h"
#include "libshard/base/file.h"
#include "libshard/base/local_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/staging.h"
#include "libshard/base/text.h"
#include "manifest/document/group_range.h"
#include "manifest/document/manifest_json.h"
#include "manifest/registry/open_set.h"
#include "manifest/registry/store/place_file.h"
#include "manifest/write/output_path.h"
#include "manifest/write/promised_file.h"

namespace moepack::registry {
namespace {

using manifest::LinkKind;

// Every node has these; of groups and overlay only what was asked for.
bool IsForEveryNode(std::string_view role) {
  return role == kManifestRole || role == kAssetRole || role == kDocRole ||
         role == RoleName(Role::kHead) || role == RoleName(Role::kTrunk) ||
         role == RoleName(Role::kRouters);
}

std::vector<BlobRecord> SelectLayers(const OpenedSet& set, const std::vector<uint32_t>& groups,
                                     bool overlay) {
  std::set<std::string> wanted;
  for (const uint32_t group : groups) wanted.insert(GroupText(group));
  std::vector<BlobRecord> layers;
  for (const BlobRecord& layer : set.oci.layers) {
    const std::string role = AnnotationOf(layer.annotations, kRoleKey);
    const bool of_group = role == RoleName(Role::kGroup) &&
                          wanted.contains(AnnotationOf(layer.annotations, kGroupKey));
    const bool of_overlay = overlay && role == RoleName(Role::kOverlay);
    if (IsForEveryNode(role) || of_group || of_overlay) layers.push_back(layer);
  }
  return layers;
}

// The groups to pull: those that were asked for, each once, or that of a view.
Result<std::vector<uint32_t>> ChooseGroups(const std::string& where, const OpenedSet& set,
                                           std::vector<uint32_t> asked) {
  std::vector<uint32_t> there = GroupsThere(set.manifest);
  if (set.view_group) there = {*set.view_group};
  if (asked.empty() && set.view_group) return there;
  if (asked.empty()) {
    return Error{Code::kInvalidArgument, Cat(where, ": expected --group, found none"),
                 "a set has the files of all groups: name those that this machine serves"};
  }
  std::sort(asked.begin(), asked.end());
  asked.erase(std::unique(asked.begin(), asked.end()), asked.end());
  for (const uint32_t group : asked) {
    SHARD_CHECK(manifest::CheckGroup(where, group, set.manifest.plan.groups.size()));
    if (std::find(there.begin(), there.end(), group) != there.end()) continue;
    std::vector<std::string> words;
    for (const uint32_t one : there) words.push_back(Cat(one));
    return Error{Code::kInvalidArgument, Cat(where, ": group: expected one of ",
                                             moepack::Join(words, ", "), ", found ", group)};
  }
  return asked;
}

// The output as it is: absent, the same distribution, or something to replace.
Result<bool> IsSameDistribution(const std::string& out, const OpenedSet& set, bool force) {
  std::error_code error;
  if (!fs::exists(fs::symlink_status(out, error))) return false;
  auto directory = InsideDirectory::Open(out);
  if (directory) {
    const auto text = directory->ReadText(manifest::kManifestFile, manifest::kMaxManifestBytes);
    if (text && *text == set.distribution_text) return true;
  }
  SHARD_CHECK(manifest::CheckReplaceable(out, force));
  return false;
}

class Puller {
 public:
  Puller(const OciLayout& layout, const PullOptions& options)
      : layout_(layout), options_(options) {}

  // Lists the files, those of a directory of the same distribution that are good as "there".
  Status MakePlan(const std::vector<BlobRecord>& layers, const std::string& extended) {
    layers_ = layers;
    uint64_t total = 0;
    for (const BlobRecord& layer : layers_) {
      SHARD_CHECK(layout_.CheckBlob(layer));
      report_.files.push_back({layer.path(), layer.digest, layer.size});
      total += layer.size;
    }
    if (extended.empty()) return Ok();
    report_.extended = true;
    ByteProgress progress(manifest::CheckingReport(options_.pack), total);
    const LocalTree tree(extended);
    return ParallelFor(layers_.size(), ThreadsForFiles(options_.pack.jobs),
                       [&](size_t i) { return LookAt(tree, report_.files[i], progress); });
  }

  Status CheckSpace(const std::string& out) const {
    if (options_.link == LinkKind::kAuto && OnOneFileSystem(out)) return Ok();
    uint64_t needed = 0;
    for (const PullReport::File& file : report_.files) needed += file.there ? 0 : file.bytes;
    needed += needed / 100;
    SHARD_TRY(const uint64_t free, FreeBytes(out));
    const bool linked = options_.link == LinkKind::kHardlink || options_.link == LinkKind::kReflink;
    if (linked || needed <= free) return Ok();
    return Error{
        Code::kIo,
        Cat(out, ": free space: expected ", FormatBytes(needed), ", found ", FormatBytes(free)),
        "free some space, or choose an output on the file system of the layout, where "
        "files can be linked"};
  }

  Status Place(StagingDirectory& staging) {
    uint64_t total = 0;
    for (const PullReport::File& file : report_.files) total += file.there ? 0 : file.bytes;
    ByteProgress progress(manifest::CheckingReport(options_.pack), total);
    for (const PullReport::File& file : report_.files) {
      if (!file.there) staging.Expect(file.name);
    }
    const size_t jobs = ThreadsForFiles(options_.pack.jobs);
    return ParallelFor(layers_.size(), jobs, [&](size_t i) -> Status {
      SHARD_CHECK(CheckInterrupt());
      return report_.files[i].there ? Ok()
                                    : PlaceOne(layers_[i], staging, progress, report_.files[i]);
    });
  }

  PullReport& report() { return report_; }

 private:
  // A file that is there and has its promised bytes stays; everything else is placed anew.
  static Status LookAt(const LocalTree& tree, PullReport::File& file, ByteProgress& progress) {
    const auto source = tree.Open(file.name);
    if (!source || (*source)->size() != file.bytes) return Ok();
    SHARD_TRY(const std::string sha256,
              HashFile(tree, file.name, [&](uint64_t bytes) { progress.Add(bytes); }));
    file.there = DigestOf(sha256) == file.digest;
    if (file.there) file.how = "there";
    return Ok();
  }

  bool OnOneFileSystem(const std::string& out) const {
    fs::path parent = fs::absolute(out).lexically_normal();
    std::error_code error;
    while (!fs::exists(parent, error) && parent.has_relative_path()) parent = parent.parent_path();
    struct stat here;
    struct stat there;
    return stat(layout_.directory().c_str(), &here) == 0 && stat(parent.c_str(), &there) == 0 &&
           here.st_dev == there.st_dev;
  }

  Status PlaceOne(const BlobRecord& layer, const StagingDirectory& staging, ByteProgress& progress,
                  PullReport::File& file) const {
    const InsideDirectory& files = staging.files();
    SHARD_CHECK(files.Remove(file.name));  // left by an earlier run that was killed
    const fs::path path(file.name);
    const std::string folder = path.parent_path().string();
    SHARD_TRY(const InsideDirectory directory,
              folder.empty() ? InsideDirectory::Open(files.path()) : files.MakeDirectories(folder));
    const LinkKind link = layer.media_type == kWeightType ? options_.link : LinkKind::kCopy;
    SHARD_TRY(const PlacedFile placed, PlaceFile(layout_.tree(), OciLayout::BlobFile(layer.digest),
                                                 directory, path.filename().string(), link,
                                                 [&](uint64_t bytes) { progress.Add(bytes); }));
    file.how = manifest::LinkName(placed.how);
    if (DigestOf(placed.sha256) == layer.digest) return Ok();
    return Error{Code::kCorrupt,
                 Cat(layout_.NameOf(layer), ": content: expected ", layer.digest, ", found ",
                     DigestOf(placed.sha256)),
                 "the layout is damaged: publish the distribution to it again"};
  }

  const OciLayout& layout_;
  const PullOptions& options_;
  std::vector<BlobRecord> layers_;
  PullReport report_;
};

// Adds the placed files to the directory that is there; each appears whole.
Status Extend(const std::string& out, const PullReport& report, StagingDirectory& staging) {
  std::vector<std::string> names;
  for (const PullReport::File& file : report.files) {
    if (!file.there) names.push_back(file.name);
  }
  SHARD_TRY(const InsideDirectory directory, InsideDirectory::Open(out));
  SHARD_CHECK(staging.MoveInto(directory, names));
  return staging.Discard();
}

std::string StagingIdentityOf(const std::string& digest, const std::vector<uint32_t>& groups) {
  std::string identity = digest;
  for (const uint32_t group : groups) identity += Cat(" ", group);
  return Sha256Hex(identity);
}

Status WriteOutput(const std::string& out, const PullOptions& options, StagingDirectory& staging,
                   Puller& puller) {
  PullReport& report = puller.report();
  SHARD_CHECK(staging.Begin(StagingIdentityOf(report.digest, report.groups)));
  SHARD_CHECK(puller.Place(staging));
  SHARD_CHECK(report.extended ? Extend(out, report, staging) : staging.Publish(options.force));
  report.warnings = staging.warnings();
  return Ok();
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
  SHARD_TRY(const OciLayout layout, OciLayout::Open(from.directory));
  SHARD_CHECK(manifest::CheckOutsideDistribution(out, from.directory));
  SHARD_TRY(const OpenedSet set, OpenSet(layout, from));
  const std::string where = ReferenceText(from.directory, from.tag, from.digest);
  SHARD_TRY(const std::vector<uint32_t> groups, ChooseGroups(where, set, options.groups));
  std::optional<StagingDirectory> staging;
  if (!options.dry_run) {
    // What is there is looked at under the lock: another run may be about to change it.
    SHARD_TRY(StagingDirectory opened, StagingDirectory::Open(out, manifest::OwnOutput()));
    staging.emplace(std::move(opened));
  }
  SHARD_TRY(const bool same, IsSameDistribution(out, set, options.force || options.dry_run));
  Puller puller(layout, options);
  puller.report().digest = set.digest;
  puller.report().groups = groups;
  SHARD_CHECK(puller.MakePlan(SelectLayers(set, groups, options.overlay), same ? out : ""));
  if (options.planned) options.planned(puller.report());
  if (staging) {
    SHARD_CHECK(puller.CheckSpace(out));
    SHARD_CHECK(WriteOutput(out, options, *staging, puller));
  }
  return std::move(puller.report());
}

}  // namespace moepack::registry
