// A directory of this machine as a tree.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/source_tree.h"

namespace moepack {

// What may be opened besides files inside the directory. Links to the blobs of the Hugging Face
// cache that the directory is a snapshot of count as inside.
enum class LinkRule : uint8_t {
  kInside,  // nothing
  // Links to anywhere, for *.gguf or for all files: a node shares its trunk with others. REQUIRES:
  // their bytes are compared with digests that do not come through the links.
  kPartsAnywhere,
  kAnywhere
};

class LocalTree final : public SourceTree {
 public:
  // `named` is a file that the user named itself: it may be a link to anywhere.
  explicit LocalTree(std::filesystem::path directory, LinkRule links = LinkRule::kInside,
                     std::string named = "");

  const std::string& name() const override { return name_; }
  std::string NameOf(const std::string& file) const override;
  Result<std::vector<std::string>> List(const std::string& folder,
                                        std::string_view suffix) const override;
  Result<bool> Has(const std::string& file) const override;
  Result<ByteSourcePtr> Open(const std::string& file) const override;
  std::optional<std::filesystem::path> LocalPath(const std::string& file) const override;

 private:
  Status CheckRule(const std::string& file) const;

  std::filesystem::path directory_;
  std::string name_;
  LinkRule links_;
  std::string named_;
  bool bare_;  // `named_` lies in the current directory: files are called as they are from there
};

// A directory, or a file in one. kNotFound, with a hint for an address, if nothing has this name.
Result<Source> LocalSource(const std::filesystem::path& path, LinkRule links = LinkRule::kInside);

}  // namespace moepack
