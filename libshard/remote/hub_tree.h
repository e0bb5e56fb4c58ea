// hf://owner/repo@rev: a model of the Hugging Face Hub at one commit.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/local_tree.h"
#include "libshard/remote/hub_api.h"
#include "libshard/remote/remote_tree.h"

namespace moepack::remote {

// A folder of a repository. Files of the same commit that the Hub's own client has put into its
// cache are read from there.
class HubTree final : public RemoteTree {
 public:
  // What one commit has. `cached` is its snapshot in the cache, if any.
  struct Content {
    std::shared_ptr<const HubApi> api;
    HubFiles files;
    std::optional<LocalTree> cached;
    std::string cached_as;  // the repository, whatever its commit
  };
  // `folder.path` is a folder of the repository; "" for all of it.
  HubTree(Transport transport, const HubName& folder, Content content);

  Result<std::vector<std::string>> List(const std::string& folder,
                                        std::string_view suffix) const override;
  Result<bool> Has(const std::string& file) const override;

 protected:
  Result<ByteSourcePtr> OpenNew(const std::string& file) const override;

 private:
  std::string InRepository(const std::string& file) const;

  std::string folder_;
  Content content_;
};

// Where the Hub's client keeps a commit of a repository.
std::filesystem::path SnapshotOf(const HubSettings& settings, const HubName& name,
                                 const std::string& commit);

// What `name` refers to: a folder of the repository, or one file. Only the cache is used if
// HF_HUB_OFFLINE is set, or if the Hub cannot be reached and the cache has the revision.
Result<Source> OpenHub(const Transport& transport, const HubSettings& settings,
                       const HubName& name);

}  // namespace moepack::remote
