// A repository on a registry server as a store.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"
#include "manifest/registry/server/authorizer.h"
#include "manifest/registry/server/blob_tree.h"
#include "manifest/registry/server/registry_client.h"
#include "manifest/registry/server/upload.h"
#include "manifest/registry/store/store.h"

namespace moepack::registry {

struct ServerOptions {
  remote::HttpSettings http;
  AuthorizerPtr authorizer;  // not null
  UploadOptions upload;
};

// Errors are those of RegistryClient and Uploader.
class ServerStore final : public WritableStore {
 public:
  ServerStore(std::shared_ptr<const RegistryClient> client, UploadOptions upload);

  const std::string& name() const override { return client_->name(); }
  Result<BlobRecord> FindTag(const std::string& tag) const override;
  Result<std::string> ReadManifest(const BlobRecord& manifest) const override;
  // Every tag, sorted; registries list no manifests without one.
  Result<std::vector<Tagged>> List() const override;

  const SourceTree& blobs() const override { return blobs_; }
  std::string FileOf(const BlobRecord& blob) const override {
    return BlobTree::FileOf(blob.digest);
  }
  Status CheckBlob(const BlobRecord& blob) const override;

  // Blobs are sent whatever `link` says.
  Result<Added> AddFile(const SourceTree& from, const std::string& file, const BlobRecord& blob,
                        manifest::LinkKind link, const PieceDone& read) override;
  Result<Added> AddText(const BlobRecord& blob, std::string_view text) override;
  Result<Added> AddManifest(const BlobRecord& manifest, std::string_view text) override;
  Result<std::vector<std::string>> SetTags(const std::vector<NewTag>& tags) override;
  std::chrono::milliseconds settling() const override { return std::chrono::seconds(1); }

  // Repositories of the same registry, "team/model", where blobs are looked for before they are
  // sent. REQUIRES: nothing is being added.
  void SetMountFrom(std::vector<std::string> repositories) {
    uploader_.SetMountFrom(std::move(repositories));
  }
  // The counts of AddFile and AddText so far.
  UploadCounts counts() const { return uploader_.counts(); }
  const Repository& repository() const { return client_->repository(); }

 private:
  Result<bool> Replace(const NewTag& tag) const;

  std::shared_ptr<const RegistryClient> client_;
  BlobTree blobs_;
  Uploader uploader_;
};

// "host[:port]/name". One request checks whether there is a registry.
Result<std::shared_ptr<ServerStore>> OpenServer(const std::string& host_and_repository,
                                                const ServerOptions& options);

}  // namespace moepack::registry
