// Blobs of a repository as files "blobs/sha256/<digits>".
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/remote/remote_tree.h"
#include "manifest/registry/server/registry_client.h"

namespace moepack::registry {

// Every range is requested from the registry; its redirect to where blobs are stored is only signed
// for that moment.
class BlobTree final : public remote::RemoteTree {
 public:
  explicit BlobTree(std::shared_ptr<const RegistryClient> client);

  // "blobs/sha256/<digits>" of "sha256:<digits>".
  static std::string FileOf(const std::string& digest);
  // The registry has just said that it has this blob, so that opening it requires no request.
  // `name` is its name in messages.
  void Know(const std::string& digest, uint64_t size, std::string name) const;

  std::string NameOf(const std::string& file) const override;
  // Returns nothing: a registry does not list blobs.
  Result<std::vector<std::string>> List(const std::string& folder,
                                        std::string_view suffix) const override;
  Result<bool> Has(const std::string& file) const override;

 protected:
  Result<ByteSourcePtr> OpenNew(const std::string& file) const override;

 private:
  std::shared_ptr<const RegistryClient> registry_;
  mutable std::mutex mutex_;
  struct Known {
    uint64_t size = 0;
    std::string name;
  };
  mutable std::map<std::string, Known> known_;  // by digest
};

}  // namespace moepack::registry
