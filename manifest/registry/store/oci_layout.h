// An OCI image layout: a directory with `oci-layout`, `index.json` and `blobs/sha256/<digits>`.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/source_tree.h"
#include "libshard/base/progress.h"
#include "manifest/registry/store/layout_index.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

// What every layout has beside its blobs, wherever it is.
inline constexpr const char* kLayoutFile = "oci-layout";
inline constexpr const char* kIndexFile = "index.json";
inline constexpr const char* kBlobFolder = "blobs/sha256";
inline constexpr const char* kIngestFolder = "ingest";  // files in transit
inline constexpr uint64_t kMaxLayoutFile = 4096;        // bytes
inline constexpr uint64_t kMaxIndex = 16u << 20;        // bytes
// kUnsupported unless the text of `oci-layout` names the version that this code reads.
Status CheckLayoutText(const std::string& where, std::string_view text);
// "blobs/sha256/<digits>".
std::string LayoutBlobFile(const std::string& digest);
// The tags of index.json in its order.
std::vector<Tagged> TagsOf(const LayoutIndex& index);
// Whether a file of kIngestFolder can be resumed: "<digits>.part" and "<digits>.cells".
bool IsPartial(const InsideDirectory::Entry& entry);

// No link inside the directory is followed.
class OciLayout final : public WritableStore {
 public:
  // For reading. kNotFound if the directory is not a layout, kUnsupported for one of another
  // version. Layouts written by other tools are fine.
  static Result<OciLayout> Open(const std::string& directory);
  // For writing: creates a layout if there is nothing or an empty directory, holds the lock until
  // the object is destroyed, and removes what a killed run left in `ingest`, except what IsPartial
  // accepts. kIo if another process has the lock for longer than `wait`, kInvalidArgument for a
  // directory that is something else, kInterrupted if the user stops the wait.
  static Result<OciLayout> OpenOrMake(const std::string& directory,
                                      std::chrono::milliseconds wait = {});
  // What OpenOrMake would say of a directory where no layout is: an error if it has other files, or
  // if there is something that is no directory. Creates nothing.
  static Status CheckPlace(const std::string& directory);
  // For removing from an existing layout: like Open, with the lock of OpenOrMake. Creates nothing
  // else.
  static Result<OciLayout> OpenLocked(const std::string& directory);

  const LayoutIndex& index() const { return index_; }
  const InsideDirectory& files() const { return files_; }
  const std::string& name() const override { return directory_; }
  Result<BlobRecord> FindTag(const std::string& tag) const override;
  Result<std::string> ReadManifest(const BlobRecord& manifest) const override;
  Result<std::vector<Tagged>> List() const override { return TagsOf(index_); }
  const SourceTree& blobs() const override { return *tree_; }
  std::string FileOf(const BlobRecord& blob) const override { return LayoutBlobFile(blob.digest); }
  Status CheckBlob(const BlobRecord& blob) const override;
  Result<std::string> ReadBlob(const BlobRecord& blob, uint64_t limit) const override;

  // Copies get mode 0444; a hard link has that of its file. An existing blob is hashed, and
  // replaced if it is corrupt. REQUIRES, here and below: opened for writing.
  Result<Added> AddFile(const SourceTree& from, const std::string& file, const BlobRecord& blob,
                        manifest::LinkKind link, const PieceDone& read) override;
  Result<Added> AddText(const BlobRecord& blob, std::string_view text) override;
  Result<Added> AddManifest(const BlobRecord& manifest, std::string_view text) override {
    return AddText(manifest, text);
  }
  void TakeBack(const BlobRecord& blob) override;
  Result<std::vector<std::string>> SetTags(const std::vector<NewTag>& tags) override;
  // Replaces index.json, after everything that was added is on disk.
  Status SetIndex(const LayoutIndex& index);

 private:
  OciLayout(InsideDirectory files, std::string directory);
  Status ReadIndex();
  Status Lock(std::chrono::milliseconds wait = {});
  Status ClearIngest();
  Result<std::string> ReadUnlisted(const std::string& digest, uint64_t limit) const;
  Error Damaged(const BlobRecord& blob, const std::string& what) const;
  // Whether the blob exists with its stated bytes. `mended` is set if it has others.
  Result<bool> IsThere(const BlobRecord& blob, bool& mended, const PieceDone& read) const;
  Status Settle(const std::string& ingested, const BlobRecord& blob, bool own_file) const;

  InsideDirectory files_;
  std::string directory_;
  SourceTreePtr tree_;
  LayoutIndex index_;
  Descriptor lock_;
};

}  // namespace moepack::registry
