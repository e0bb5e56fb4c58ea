// The seam behind references: where manifests and blobs are kept. An image layout here or on a web
// server, a registry, or a distribution as plain files.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/result.h"
#include "manifest/registry/artifact/oci_manifest.h"
#include "manifest/write/link_file.h"

namespace moepack::registry {

// A manifest and one of its tags.
struct Tagged {
  std::string tag;  // "" for a manifest without one
  BlobRecord manifest;
};

// Reads. Nothing that comes out of it is believed before a digest vouches for it. Used by several
// threads at once.
class Store {
 public:
  virtual ~Store() = default;

  // What messages call it: "models", "oci://host/repository".
  virtual const std::string& name() const = 0;
  // "models: blob sha256:... (groups/001/experts.gguf)": how messages begin.
  std::string NameOf(const BlobRecord& blob) const;

  // The manifest that has this tag; kNotFound.
  virtual Result<BlobRecord> FindTag(const std::string& tag) const = 0;
  // The bytes of a manifest, compared with its digest, and with its size unless that is 0: a digest
  // alone promises none. kNotFound, kCorrupt; more than kMaxOciManifest is kCorrupt.
  virtual Result<std::string> ReadManifest(const BlobRecord& manifest) const = 0;
  // Every tag, and where the store lists them also manifests without one.
  virtual Result<std::vector<Tagged>> List() const = 0;

  // Where blobs are files: blobs().Open(FileOf(blob)), and LocalPath where links can be made. Their
  // bytes are whatever the store holds, until somebody hashes them.
  virtual const SourceTree& blobs() const = 0;
  virtual std::string FileOf(const BlobRecord& blob) const = 0;
  // The blob is there with its promised size; its bytes are not looked at. kNotFound, kCorrupt.
  virtual Status CheckBlob(const BlobRecord& blob) const = 0;
  // A small blob whole, compared with its size and digest (kCorrupt).
  virtual Result<std::string> ReadBlob(const BlobRecord& blob, uint64_t limit) const;
};

using StorePtr = std::shared_ptr<const Store>;

// How a blob came into a store.
struct Added {
  // "hardlink", "reflink" or "copy" into a layout, "fetched" when it came from another machine;
  // "sent" or "mounted" for a registry; "there" for one that was there.
  std::string how;
  bool mended = false;  // what was there had other bytes, and was replaced
  bool was_there() const { return how == "there"; }
};

// A manifest and the tag that it gets.
struct NewTag {
  std::string tag;
  BlobRecord manifest;
  std::string text;  // of the manifest
};

// Also adds. Blobs come first, then manifests, then tags, which alone make them visible.
class WritableStore : public Store {
 public:
  using BytesRead = std::function<void(uint64_t bytes)>;
  // Adds a file under its promised digest. kMismatch, and nothing is added, when the file has other
  // bytes. `link` is how it gets into a layout; `read` is told of every step and may be empty.
  // Several threads may add at once.
  virtual Result<Added> AddFile(const SourceTree& from, const std::string& file,
                                const BlobRecord& blob, manifest::LinkKind link,
                                const BytesRead& read) = 0;
  virtual Result<Added> AddText(const BlobRecord& blob, std::string_view text) = 0;
  // A manifest, under its digest only. REQUIRES: what it names was added.
  virtual Result<Added> AddManifest(const BlobRecord& manifest, std::string_view text) = 0;
  // Gives tags to manifests that were added, in this order; the last shows the publication. A tag
  // that has another manifest is moved.
  virtual Status SetTags(const std::vector<NewTag>& tags) = 0;
};

}  // namespace moepack::registry
