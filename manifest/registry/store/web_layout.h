// An OCI image layout served by a web server: index.json, and blobs by range.
#pragma once

#include <string>
#include <vector>

#include "manifest/registry/store/layout_index.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

class WebLayout final : public Store {
 public:
  // Reads `oci-layout` and `index.json` at the top of the tree, the latter once. Errors are those
  // of OciLayout::Open.
  static Result<WebLayout> Open(SourceTreePtr tree);

  const std::string& name() const override { return tree_->name(); }
  Result<BlobRecord> FindTag(const std::string& tag) const override;
  Result<std::string> ReadManifest(const BlobRecord& manifest) const override;
  Result<std::vector<Tagged>> List() const override;
  const SourceTree& blobs() const override { return *tree_; }
  std::string FileOf(const BlobRecord& blob) const override;
  // Makes one request, which also fetches the beginning of the blob.
  Status CheckBlob(const BlobRecord& blob) const override;

 private:
  WebLayout(SourceTreePtr tree, LayoutIndex index);

  SourceTreePtr tree_;
  LayoutIndex index_;
};

}  // namespace moepack::registry
