#include "manifest/registry/store/oci_layout.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/registry/artifact/reference.h"
#include "manifest/registry/store/place_file.h"
#include "manifest/registry/transfer/fetch_file.h"

namespace moepack::registry {
namespace {

using Kind = InsideDirectory::Kind;

constexpr const char* kLayoutText = R"({"imageLayoutVersion":"1.0.0"})";
constexpr const char* kLayoutVersion = "1.0.0";
constexpr const char* kLockFile = "lock";
constexpr mode_t kBlobMode = 0444;

Status CheckLayoutFile(const InsideDirectory& files, const std::string& directory) {
  SHARD_TRY(const Kind kind, files.KindOf(kLayoutFile));
  if (kind == Kind::kNothing) {
    return Error{Code::kNotFound,
                 Cat(directory, ": expected an OCI image layout, found no file ", kLayoutFile),
                 "name a directory that publish wrote"};
  }
  const std::string where = Cat(directory, "/", kLayoutFile);
  SHARD_TRY(const std::string text, files.ReadText(kLayoutFile, kMaxLayoutFile));
  return CheckLayoutText(where, text);
}

// What a run leaves if it is killed before the directory is a layout.
bool IsUnfinished(const InsideDirectory::Entry& entry) {
  return TemporaryOf(entry.name) == kLayoutFile && entry.kind == Kind::kFile;
}

Status CheckIsEmpty(const InsideDirectory& files, const std::string& directory) {
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, ListOutput(files));
  if (std::all_of(entries.begin(), entries.end(), IsUnfinished)) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(directory, ": expected an OCI image layout or an empty directory, found ",
                   Quoted(entries[0].name)),
               "choose another directory"};
}

Status MakeLayout(const InsideDirectory& files, const std::string& directory) {
  SHARD_TRY(const Kind kind, files.KindOf(kLayoutFile));
  if (kind != Kind::kNothing) return Ok();
  SHARD_CHECK(CheckIsEmpty(files, directory));
  return files.WriteText(kLayoutFile, kLayoutText);
}

// A link or a device where a blob or a folder should be.
Error Strange(Error error) {
  if (error.code == Code::kInvalidArgument) error = {Code::kCorrupt, std::move(error.message)};
  return error;
}

// Fetches a blob from another machine; what an earlier run fetched of it is not fetched again.
Status FetchInto(const SourceTree& from, const std::string& file, const BlobRecord& blob,
                 const InsideDirectory& ingest, const PieceDone& read) {
  SHARD_TRY(const ByteSourcePtr source, from.Open(file));
  FetchOptions options;
  uint64_t told = 0;
  options.progress = [&](uint64_t there, uint64_t) {
    if (read && there > told) read(there - told);
    told = there;
  };
  const StatedContent stated{from.NameOf(file), HexOf(blob.digest), blob.size, {}};
  SHARD_CHECK(FetchFile(*source, stated, ingest, HexOf(blob.digest), options));
  return Ok();
}

}  // namespace

Status CheckLayoutText(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseJson(where, text));
  const std::string version = TextMember(document, "imageLayoutVersion");
  if (version == kLayoutVersion) return Ok();
  return Error{Code::kUnsupported, Cat(where, ": imageLayoutVersion: expected ", kLayoutVersion,
                                       ", found ", Quoted(version))};
}

std::string LayoutBlobFile(const std::string& digest) {
  return Cat(kBlobFolder, "/", HexOf(digest));
}

std::vector<Tagged> TagsOf(const LayoutIndex& index) {
  std::vector<Tagged> tags;
  for (const LayoutIndex::Entry& entry : index.entries()) tags.push_back({entry.tag, entry.blob});
  return tags;
}

bool IsPartial(const InsideDirectory::Entry& entry) {
  return entry.kind == Kind::kFile &&
         (entry.name.ends_with(".part") || entry.name.ends_with(".cells"));
}

OciLayout::OciLayout(InsideDirectory files, std::string directory)
    : files_(std::move(files)),
      directory_(std::move(directory)),
      tree_(std::make_shared<const LocalTree>(directory_)) {}

Result<OciLayout> OciLayout::Open(const std::string& directory) {
  SHARD_TRY(InsideDirectory files, InsideDirectory::Open(directory));
  OciLayout layout(std::move(files), directory);
  Status read = CheckLayoutFile(layout.files_, directory);
  if (read) read = layout.ReadIndex();
  if (!read) return Strange(std::move(read).error());
  return layout;
}

Status OciLayout::CheckPlace(const std::string& directory) {
  const fs::path place = TidyPath(directory);
  fs::path there = place;
  std::error_code ignored;
  while (fs::symlink_status(there, ignored).type() == fs::file_type::not_found &&
         there.has_relative_path())
    there = there.parent_path();
  SHARD_TRY(const InsideDirectory files, InsideDirectory::Open(there));
  if (there != place) return Ok();
  // A layout without an index is what a run leaves that failed early: the next one goes on with it.
  SHARD_TRY(const Kind kind, files.KindOf(kLayoutFile));
  return kind == Kind::kNothing ? CheckIsEmpty(files, directory) : Ok();
}

Result<OciLayout> OciLayout::OpenOrMake(const std::string& directory,
                                        std::chrono::milliseconds wait) {
  SHARD_TRY(InsideDirectory files, InsideDirectory::OpenOrMake(TidyPath(directory)));
  OciLayout layout(std::move(files), directory);
  SHARD_CHECK(MakeLayout(layout.files_, directory));
  SHARD_CHECK(CheckLayoutFile(layout.files_, directory));
  SHARD_CHECK(layout.Lock(wait));
  SHARD_TRY(const Kind kind, layout.files_.KindOf(kIndexFile));
  if (kind == Kind::kNothing)
    SHARD_CHECK(layout.files_.WriteText(kIndexFile, LayoutIndex().Write()));
  SHARD_CHECK(layout.ReadIndex());
  SHARD_CHECK(layout.ClearIngest());
  SHARD_CHECK(layout.files_.MakeDirectories(kBlobFolder));
  return layout;
}

Result<OciLayout> OciLayout::OpenLocked(const std::string& directory) {
  SHARD_TRY(OciLayout layout, Open(directory));
  SHARD_CHECK(layout.Lock());
  SHARD_CHECK(layout.ReadIndex());  // its state now that nobody else changes it
  return layout;
}

Status OciLayout::ClearIngest() {
  SHARD_TRY(const Kind kind, files_.KindOf(kIngestFolder));
  if (kind != Kind::kDirectory) SHARD_CHECK(files_.Remove(kIngestFolder));
  SHARD_TRY(const InsideDirectory ingest, files_.MakeDirectories(kIngestFolder));
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, ingest.List());
  for (const InsideDirectory::Entry& entry : entries) {
    if (!IsPartial(entry)) SHARD_CHECK(ingest.Remove(entry.name));
  }
  return Ok();
}

Status OciLayout::Lock(std::chrono::milliseconds wait) {
  using std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kStep{20};
  SHARD_TRY(lock_, files_.OpenFile(kLockFile, O_RDWR | O_CREAT));
  const auto end = steady_clock::now() + wait;
  while (true) {
    if (flock(lock_.get(), LOCK_EX | LOCK_NB) == 0) return Ok();
    if (errno != EWOULDBLOCK) return IoError(files_.path() / kLockFile, "lock", errno);
    if (steady_clock::now() >= end) break;
    SHARD_CHECK(WaitFor(kStep));
  }
  return Error{Code::kIo, Cat(directory_, ": another process is changing it"),
               "wait for it, then run the same command again"};
}

Status OciLayout::ReadIndex() {
  const auto text = files_.ReadText(kIndexFile, kMaxIndex);
  if (!text) {
    Error error = text.error();
    // A publish that failed at its very beginning, on a full disk for instance, leaves none.
    if (error.code == Code::kNotFound)
      error.hint = "publish again: that writes it, and keeps the blobs that are there";
    return error;
  }
  SHARD_TRY(index_, LayoutIndex::Parse(Cat(directory_, "/", kIndexFile), *text));
  return Ok();
}

Result<BlobRecord> OciLayout::FindTag(const std::string& tag) const {
  return index_.Find(directory_, tag);
}

// A manifest that index.json does not list has no stated size.
Result<std::string> OciLayout::ReadManifest(const BlobRecord& manifest) const {
  if (manifest.size > 0) return ReadBlob(manifest, kMaxOciManifest);
  const LayoutIndex::Entry* entry = index_.FindDigest(manifest.digest);
  return entry == nullptr ? ReadUnlisted(manifest.digest, kMaxOciManifest)
                          : ReadBlob(entry->blob, kMaxOciManifest);
}

Error OciLayout::Damaged(const BlobRecord& blob, const std::string& what) const {
  return {Code::kCorrupt, Cat(NameOf(blob), ": ", what),
          "the layout is corrupt: publish the distribution to it again"};
}

Status OciLayout::CheckBlob(const BlobRecord& blob) const {
  const std::string file = LayoutBlobFile(blob.digest);
  auto kind = files_.KindOf(file);
  if (!kind) return Strange(std::move(kind).error());
  if (*kind == Kind::kNothing) {
    return Error{Code::kNotFound,
                 Cat(NameOf(blob), ": expected ", blob.size, " bytes, found no such blob"),
                 "the layout is not whole: publish the distribution to it again"};
  }
  if (*kind != Kind::kFile)
    return Damaged(
        blob, Cat("expected a file, found ", *kind == Kind::kLink ? "a link" : "something else"));
  auto opened = files_.OpenFile(file, O_RDONLY);
  if (!opened) return Strange(std::move(opened).error());
  struct stat info;
  if (fstat(opened->get(), &info) != 0) return IoError(files_.path() / file, "look it up", errno);
  const auto found = static_cast<uint64_t>(info.st_size);
  if (found == blob.size) return Ok();
  return Damaged(blob, Cat("size: expected ", blob.size, " bytes, found ", found));
}

Result<std::string> OciLayout::ReadUnlisted(const std::string& digest, uint64_t limit) const {
  const BlobRecord blob{"", digest};
  auto text = files_.ReadText(LayoutBlobFile(digest), limit);
  if (!text && text.error().code == Code::kNotFound) {
    return Error{Code::kNotFound, Cat(NameOf(blob), ": expected a blob, found none"),
                 "name a manifest that the layout holds"};
  }
  if (!text) return Strange(std::move(text).error()).Within(NameOf(blob));
  const std::string found = DigestOf(Sha256Hex(*text));
  if (found != digest) return Damaged(blob, Cat("content: expected ", digest, ", found ", found));
  return text;
}

Result<std::string> OciLayout::ReadBlob(const BlobRecord& blob, uint64_t limit) const {
  if (blob.size > limit) {
    return Error{Code::kCorrupt, Cat(NameOf(blob), ": size: expected at most ", limit,
                                     " bytes, found ", blob.size)};
  }
  SHARD_CHECK(CheckBlob(blob));
  return ReadUnlisted(blob.digest, limit);
}

Result<bool> OciLayout::IsThere(const BlobRecord& blob, bool& mended, const PieceDone& read) const {
  const Status there = CheckBlob(blob);
  if (!there && there.error().code == Code::kNotFound) return false;
  // A link is not ours to read: it is replaced.
  if (there) {
    SHARD_TRY(const std::string sha256, HashFile(*tree_, LayoutBlobFile(blob.digest), read));
    if (DigestOf(sha256) == blob.digest) return true;
  } else if (there.error().code != Code::kCorrupt) {
    return there.error();
  }
  mended = true;
  return false;
}

// `own_file`: its mode may be changed, because it is not also a file of the user.
Status OciLayout::Settle(const std::string& ingested, const BlobRecord& blob, bool own_file) const {
  if (own_file) {
    SHARD_TRY(const Descriptor fd, files_.OpenFile(ingested, O_RDONLY));
    if (fchmod(fd.get(), kBlobMode) != 0)
      return IoError(files_.path() / ingested, "set the mode", errno);
  }
  return files_.Move(ingested, files_, LayoutBlobFile(blob.digest), true);
}

Result<Added> OciLayout::AddFile(const SourceTree& from, const std::string& file,
                                 const BlobRecord& blob, manifest::LinkKind link,
                                 const PieceDone& read) {
  Added added{"there"};
  SHARD_TRY(const bool there, IsThere(blob, added.mended, read));
  if (there) return added;
  SHARD_TRY(const InsideDirectory ingest, files_.OpenDirectory(kIngestFolder));
  const std::string name = HexOf(blob.digest);
  if (!from.LocalPath(file)) {
    SHARD_CHECK(FetchInto(from, file, blob, ingest, read));
    SHARD_CHECK(Settle(Cat(kIngestFolder, "/", name), blob, true));
    added.how = kFetched;
    return added;
  }
  const Result<PlacedFile> placed = PlaceFile(from, file, ingest, name, link, read);
  if (!placed) {  // a full disk is not left that way
    (void)ingest.Remove(name).has_value();
    return placed.error();
  }
  if (DigestOf(placed->sha256) != blob.digest) {
    SHARD_CHECK(ingest.Remove(name));
    return Error{Code::kMismatch, Cat(from.NameOf(file), ": sha256: expected ", HexOf(blob.digest),
                                      ", found ", placed->sha256)};
  }
  const bool own_file = placed->how != manifest::LinkKind::kHardlink;
  SHARD_CHECK(Settle(Cat(kIngestFolder, "/", name), blob, own_file));
  added.how = manifest::LinkName(placed->how);
  return added;
}

Result<Added> OciLayout::AddText(const BlobRecord& blob, std::string_view text) {
  Added added{"there"};
  SHARD_TRY(const bool there, IsThere(blob, added.mended, {}));
  if (there) return added;
  const std::string ingested = Cat(kIngestFolder, "/", HexOf(blob.digest));
  SHARD_CHECK(files_.WriteText(ingested, text));
  SHARD_CHECK(Settle(ingested, blob, true));
  added.how = manifest::LinkName(manifest::LinkKind::kCopy);
  return added;
}

void OciLayout::TakeBack(const BlobRecord& blob) {
  (void)files_.Remove(LayoutBlobFile(blob.digest)).has_value();
}

// All of them appear at once: the tag that shows the publication is listed first. Nobody else
// writes while the lock is held.
Result<std::vector<std::string>> OciLayout::SetTags(const std::vector<NewTag>& tags) {
  LayoutIndex index = index_;
  std::vector<std::string> left;
  for (const bool last : {true, false}) {
    for (const NewTag& tag : tags) {
      if ((tag.manifest.digest == tags.back().manifest.digest) != last) continue;
      const LayoutIndex::Entry* now = index_.FindTag(tag.tag);
      if (tag.replaces && *tag.replaces != (now == nullptr ? "" : now->blob.digest)) {
        left.push_back(tag.tag);
        continue;
      }
      SHARD_TRY(const Json document, ParseJson(NameOf(tag.manifest), tag.text));
      index.SetTag(tag.tag, tag.manifest, TextMember(document, "artifactType"));
    }
  }
  SHARD_CHECK(SetIndex(index));
  return left;
}

Status OciLayout::SetIndex(const LayoutIndex& index) {
  SHARD_TRY(const InsideDirectory blobs, files_.OpenDirectory(kBlobFolder));
  SHARD_CHECK(blobs.Flush());
  SHARD_CHECK(files_.WriteText(kIndexFile, index.Write()));
  index_ = index;
  return Ok();
}

}  // namespace moepack::registry
