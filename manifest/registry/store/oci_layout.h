// An OCI image layout: a directory with `oci-layout`, `index.json` and `blobs/sha256/<digits>`.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/descriptor.h"
#include "libshard/base/inside_directory.h"
#include "libshard/base/source_tree.h"
#include "manifest/registry/store/layout_index.h"
#include "manifest/write/link_file.h"

namespace moepack::registry {

// Of several threads at once, each may read and each may add blobs. Nothing is followed through a
// link inside the directory.
class OciLayout {
 public:
  // For reading. kNotFound when the directory is no layout, kUnsupported for one of another
  // version. What another tool wrote is welcome.
  static Result<OciLayout> Open(const std::string& directory);
  // For writing: makes a layout where there is nothing or an empty directory, takes the lock until
  // the object goes, and removes what a killed run left in `ingest`. kIo when another process has
  // the lock, kInvalidArgument for a directory that is something else.
  static Result<OciLayout> OpenOrMake(const std::string& directory);

  const std::string& directory() const { return directory_; }
  const LayoutIndex& index() const { return index_; }
  // For LinkFile and for hashing: names are those of BlobFile.
  const SourceTree& tree() const { return *tree_; }
  static std::string BlobFile(const std::string& digest);
  // "DIR: blob sha256:... (groups/001/experts.gguf)": how messages begin.
  std::string NameOf(const BlobRecord& blob) const;

  // The blob is a file of the promised size; its bytes are not looked at. kNotFound without one,
  // kCorrupt for a link or another size.
  Status CheckBlob(const BlobRecord& blob) const;
  // Reads a small blob whole and compares size and digest (kCorrupt). A manifest that index.json
  // does not list has no promised size.
  Result<std::string> ReadBlob(const BlobRecord& blob, uint64_t limit) const;
  Result<std::string> ReadUnlisted(const std::string& digest, uint64_t limit) const;

  // How a blob came into the layout.
  struct Added {
    std::optional<manifest::LinkKind> how;  // none: it was there
    bool mended = false;                    // what was there had other bytes, and was replaced
  };
  using BytesRead = std::function<void(uint64_t bytes)>;
  // Adds a file under its promised digest. One that is there is hashed, and replaced if it is
  // damaged. kMismatch, and nothing is added, when the file has other bytes. Copies get the mode
  // 0444; a hard link has that of its file. REQUIRES: opened for writing, for all below.
  Result<Added> AddFile(const SourceTree& from, const std::string& file, const BlobRecord& blob,
                        manifest::LinkKind link, const BytesRead& read) const;
  Result<Added> AddText(const BlobRecord& blob, std::string_view text) const;
  // Replaces index.json, after everything that was added is on the disk.
  Status SetIndex(const LayoutIndex& index);

 private:
  OciLayout(InsideDirectory files, std::string directory);
  Status ReadIndex();
  Status Lock();
  Error Damaged(const BlobRecord& blob, const std::string& what) const;
  // Whether the blob is there with its promised bytes. `mended` says that it has others.
  Result<bool> IsThere(const BlobRecord& blob, bool& mended, const BytesRead& read) const;
  Status Settle(const std::string& ingested, const BlobRecord& blob, bool own_file) const;

  InsideDirectory files_;
  std::string directory_;
  SourceTreePtr tree_;
  LayoutIndex index_;
  Descriptor lock_;
};

}  // namespace moepack::registry
