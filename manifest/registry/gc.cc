#include "manifest/registry/gc.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "libshard/base/parallel.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/any_manifest.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/sign/signature_manifest.h"
#include "manifest/registry/store/oci_layout.h"

namespace moepack::registry {
namespace {

using Entry = InsideDirectory::Entry;

// Without signatures, except for those with the tags `kept`.
LayoutIndex WithoutSignatures(LayoutIndex index, const std::set<std::string>& kept) {
  const std::vector<LayoutIndex::Entry> entries = index.entries();
  for (const LayoutIndex::Entry& entry : entries) {
    if (IsSignatureTag(entry.tag) && !kept.contains(entry.tag)) index.RemoveTag(entry.tag);
  }
  return index;
}

// Everything that index.json leads to. A signature counts if what it signs does.
class Reachable {
 public:
  explicit Reachable(const OciLayout& layout) : layout_(layout) {}

  Status Walk() {
    // What a signature leads to may be signed, too.
    for (size_t before = SIZE_MAX; before != signatures_.size();) {
      before = signatures_.size();
      SHARD_CHECK(WalkIndex(index()));
      KeepSignatures();
    }
    return Ok();
  }
  bool Has(const std::string& digest) const { return digests_.contains(digest); }
  // index.json with the signatures that count.
  LayoutIndex index() const { return WithoutSignatures(layout_.index(), signatures_); }

 private:
  Status WalkIndex(const LayoutIndex& index) {
    SHARD_CHECK(Note(Cat(layout_.name(), "/", kIndexFile), index.Write()));
    while (!to_read_.empty()) {
      SHARD_CHECK(CheckInterrupt());
      const NamedBlob next = std::move(to_read_.back());
      to_read_.pop_back();
      SHARD_CHECK(Read(next));
    }
    return Ok();
  }

  void KeepSignatures() {
    std::set<std::string> wanted;
    for (const std::string& digest : digests_) wanted.insert(SignatureTag(digest));
    for (const LayoutIndex::Entry& entry : layout_.index().entries()) {
      if (wanted.contains(entry.tag)) signatures_.insert(entry.tag);
    }
  }

  Status Note(const std::string& where, std::string_view text) {
    SHARD_TRY(std::vector<NamedBlob> named, FindNamedBlobs(where, text));
    for (NamedBlob& one : named) {
      digests_.insert(one.blob.digest);
      const bool reads = one.kind != NamedBlob::Kind::kBlob;
      if (reads && read_.insert(one.blob.digest).second) to_read_.push_back(std::move(one));
    }
    return Ok();
  }

  Status Read(const NamedBlob& named) {
    const auto text = layout_.ReadManifest(named.blob);
    if (!text) {
      Error error = text.error();
      // What a document is about may be in another store.
      const bool elsewhere =
          named.kind == NamedBlob::Kind::kSubject && error.code == Code::kNotFound;
      if (elsewhere) return Ok();
      error.hint =
          "nothing was removed: publish again, or remove the tag of this manifest, which `moepack "
          "ls` shows, with `moepack tag REF --remove --no-views`";
      return error;
    }
    const std::string where = layout_.NameOf(named.blob);
    const bool known = IsManifestType(named.blob.media_type) || IsIndexType(named.blob.media_type);
    // A blob that is not JSON has no descriptors.
    if (!known && !ParseJson(where, *text)) return Ok();
    return Note(where, *text);
  }

  const OciLayout& layout_;
  std::set<std::string> digests_, read_, signatures_;  // the last: tags
  std::vector<NamedBlob> to_read_;
};

struct FileFacts {
  uint64_t bytes = 0, links = 0;
  time_t changed = 0;
};
// Facts of the entry itself, even if it is a link.
Result<FileFacts> FactsOf(const InsideDirectory& folder, const std::string& name) {
  struct stat info;
  if (fstatat(folder.descriptor(), name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0)
    return IoError(folder.path() / name, "look it up", errno);
  return FileFacts{static_cast<uint64_t>(info.st_size), info.st_nlink, info.st_mtime};
}

class Collector {
 public:
  Collector(OciLayout& layout, const GcOptions& options) : layout_(layout), options_(options) {}

  // Lists files without removing anything.
  Status Look() {
    Reachable reachable(layout_);
    SHARD_CHECK(reachable.Walk());
    index_ = reachable.index();
    for (const LayoutIndex::Entry& entry : layout_.index().entries()) {
      if (index_.FindTag(entry.tag) == nullptr && !entry.tag.empty())
        report_.signatures.push_back(entry.tag);
    }
    SHARD_CHECK(Visit(kBlobFolder, [&](const Entry& entry, const FileFacts& facts) {
      const std::string digest = DigestOf(entry.name);
      if (entry.kind != InsideDirectory::Kind::kFile || !IsDigest(digest)) {
        report_.left_alone.push_back(Cat(kBlobFolder, "/", entry.name));
      } else if (reachable.Has(digest)) {
        ++report_.kept_blobs;
        report_.kept_bytes += facts.bytes;
      } else {
        Take(kBlobFolder, entry, facts);
      }
    }));
    const time_t now = std::time(nullptr);
    return Visit(kIngestFolder, [&](const Entry& entry, const FileFacts& facts) {
      const bool old =
          now >= facts.changed && static_cast<uint64_t>(now - facts.changed) >= options_.older_than;
      if (IsPartial(entry) && !old) {
        ++report_.kept_partial;
      } else if (entry.kind == InsideDirectory::Kind::kFile) {
        Take(kIngestFolder, entry, facts);
      } else {
        report_.left_alone.push_back(Cat(kIngestFolder, "/", entry.name));
      }
    });
  }

  // No tag may lead to what is removed.
  Status Remove() {
    if (!report_.signatures.empty()) SHARD_CHECK(layout_.SetIndex(index_));
    for (const GcReport::Removed& one : report_.removed) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_CHECK(layout_.files().Remove(one.file));
    }
    return Ok();
  }

  GcReport& report() { return report_; }

 private:
  template <class See>
  Status Visit(const char* folder, const See& see) const {
    SHARD_TRY(const InsideDirectory::Kind kind, layout_.files().KindOf(folder));
    if (kind == InsideDirectory::Kind::kNothing) return Ok();
    SHARD_TRY(const InsideDirectory inside, layout_.files().OpenDirectory(folder));
    SHARD_TRY(const std::vector<Entry> entries, inside.List());
    for (const Entry& entry : entries) {
      SHARD_TRY(const FileFacts facts, FactsOf(inside, entry.name));
      see(entry, facts);
    }
    return Ok();
  }

  void Take(const char* folder, const Entry& entry, const FileFacts& facts) {
    report_.removed.push_back({Cat(folder, "/", entry.name), facts.bytes, facts.links == 1});
  }

  OciLayout& layout_;
  const GcOptions& options_;
  LayoutIndex index_;  // without the signatures of what is gone
  GcReport report_;
};

}  // namespace

uint64_t GcReport::removed_bytes() const {
  uint64_t bytes = 0;
  for (const Removed& one : removed) bytes += one.bytes;
  return bytes;
}

uint64_t GcReport::freed_bytes() const {
  uint64_t bytes = 0;
  for (const Removed& one : removed) bytes += one.last_link ? one.bytes : 0;
  return bytes;
}

Result<GcReport> CollectGarbage(const std::string& directory, const GcOptions& options) {
  SHARD_TRY(OciLayout layout,
            options.dry_run ? OciLayout::Open(directory) : OciLayout::OpenLocked(directory));
  Collector collector(layout, options);
  SHARD_CHECK(collector.Look());
  if (!options.dry_run) SHARD_CHECK(collector.Remove());
  return std::move(collector.report());
}

}  // namespace moepack::registry
