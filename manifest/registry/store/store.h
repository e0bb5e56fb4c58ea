// The interface behind references: where manifests and blobs are kept. An image layout here or on a
// web server, a registry, or a distribution as plain files.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "manifest/registry/artifact/oci_manifest.h"
#include "manifest/write/link_file.h"

namespace moepack::registry {

// A manifest and one of its tags.
struct Tagged {
  std::string tag;  // "" for a manifest without one
  BlobRecord manifest;
};

// Reads. Nothing that it returns is trusted before a digest vouches for it. Safe to use from
// several threads at once.
class Store {
 public:
  virtual ~Store() = default;

  // Its name in messages: "models", "oci://host/repository".
  virtual const std::string& name() const = 0;
  // "models: blob sha256:... (groups/001/experts.gguf)": how messages begin.
  std::string NameOf(const BlobRecord& blob) const;

  // The manifest with this tag; kNotFound.
  virtual Result<BlobRecord> FindTag(const std::string& tag) const = 0;
  // The bytes of a manifest, checked against its digest, and against its size unless that is 0: a
  // digest alone does not tell its size. kNotFound, kCorrupt; more than kMaxOciManifest is
  // kCorrupt.
  virtual Result<std::string> ReadManifest(const BlobRecord& manifest) const = 0;
  // Every tag and, if the store lists them, also manifests without one.
  virtual Result<std::vector<Tagged>> List() const = 0;

  // The tree with the blobs as files: blobs().Open(FileOf(blob)), and LocalPath if links can be
  // made. Their bytes are whatever the store holds until somebody hashes them.
  virtual const SourceTree& blobs() const = 0;
  virtual std::string FileOf(const BlobRecord& blob) const = 0;
  // Checks that the blob exists with its stated size; its bytes are not checked. kNotFound,
  // kCorrupt.
  virtual Status CheckBlob(const BlobRecord& blob) const = 0;
  // The hint of errors about a blob with other bytes than its digest says.
  std::string CorruptHint() const;
  // A whole small blob, checked against its size and digest (kCorrupt).
  virtual Result<std::string> ReadBlob(const BlobRecord& blob, uint64_t limit) const;
};

using StorePtr = std::shared_ptr<const Store>;

inline constexpr const char* kFetched = "fetched";

// How a blob got into a store.
struct Added {
  // "hardlink", "reflink" or "copy" into a layout, "fetched" if it came from another machine;
  // "sent" or "mounted" for a registry; "there" if it already existed.
  std::string how;
  bool mended = false;  // the existing blob had other bytes and was replaced
  bool was_there() const { return how == "there"; }
};

// A manifest and the tag that it gets.
struct NewTag {
  std::string tag;
  BlobRecord manifest;
  std::string text;  // of the manifest
  // The digest that the tag named when this manifest was made, "" for none: if the tag names
  // something else by now, it is left alone. No value: it is moved whatever it names.
  std::optional<std::string> replaces = std::nullopt;
};

// Also adds. Blobs come first, then manifests, then tags, which alone make them visible.
class WritableStore : public Store {
 public:
  // Adds a file under its stated digest. kMismatch, and nothing is added, if the file has other
  // bytes. `link` is how it gets into a layout; `read` is called for every step and may be empty.
  // Several threads may add at once.
  virtual Result<Added> AddFile(const SourceTree& from, const std::string& file,
                                const BlobRecord& blob, manifest::LinkKind link,
                                const PieceDone& read) = 0;
  virtual Result<Added> AddText(const BlobRecord& blob, std::string_view text) = 0;
  // Adds a manifest, under its digest only. REQUIRES: what it names was added.
  virtual Result<Added> AddManifest(const BlobRecord& manifest, std::string_view text) = 0;
  // Removes what was added when the run fails before a tag leads to it. What a registry has, it
  // collects itself.
  virtual void TakeBack(const BlobRecord&) {}
  // Gives tags to manifests that were added, in this order; the last makes the publication visible.
  // A tag of another manifest is moved. Returns the tags that were left alone (NewTag::replaces).
  virtual Result<std::vector<std::string>> SetTags(const std::vector<NewTag>& tags) = 0;
  // How long somebody else, who looked at a tag before SetTags set it, may still move it.
  virtual std::chrono::milliseconds settling() const { return std::chrono::milliseconds(0); }
};

}  // namespace moepack::registry
