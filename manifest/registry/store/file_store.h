// A distribution as plain files on this machine, a Hub, a web server or S3, read as the artifact
// that `publish` would make from it.
#pragma once

#include <string>
#include <vector>

#include "manifest/registry/artifact/distribution_parts.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

// It holds one manifest, that of the whole set, under kDefaultTag.
class FileStore final : public Store {
 public:
  // Reads distribution.json and README.md. kNotFound if the tree is not a distribution.
  static Result<FileStore> Open(SourceTreePtr tree);

  const std::string& name() const override { return tree_->name(); }
  Result<BlobRecord> FindTag(const std::string& tag) const override;
  Result<std::string> ReadManifest(const BlobRecord& manifest) const override;
  Result<std::vector<Tagged>> List() const override;
  const SourceTree& blobs() const override { return *tree_; }
  // REQUIRES: `blob` is a layer of the manifest.
  std::string FileOf(const BlobRecord& blob) const override { return blob.path(); }
  Status CheckBlob(const BlobRecord& blob) const override;
  Result<std::string> ReadBlob(const BlobRecord& blob, uint64_t limit) const override;

 private:
  FileStore(SourceTreePtr tree, DistributionParts parts);

  SourceTreePtr tree_;
  DistributionParts parts_;
  Artifact artifact_;
};

}  // namespace moepack::registry
