// What the trees of all kinds of servers have in common: every file is opened once, and missing
// files are requested only once.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/source_tree.h"
#include "libshard/remote/http_source.h"

namespace moepack::remote {

class RemoteTree : public SourceTree {
 public:
  const std::string& name() const override { return name_; }
  std::string NameOf(const std::string& file) const override;
  // The same source for the same file, so that a whole run reads one content of it.
  Result<ByteSourcePtr> Open(const std::string& file) const override;
  void Expect(const std::vector<std::string>& files) const override;
  std::optional<std::filesystem::path> LocalPath(const std::string&) const override {
    return std::nullopt;
  }
  std::optional<Traffic> traffic() const override { return transport_.client->traffic(); }
  uint64_t from_cache() const;  // bytes that were not requested

 protected:
  // `name` does not end in '/'.
  RemoteTree(Transport transport, std::string name)
      : transport_(std::move(transport)), name_(std::move(name)) {}

  // REQUIRES: `file` does not lead outside. kNotFound for missing files.
  virtual Result<ByteSourcePtr> OpenNew(const std::string& file) const = 0;
  Error NoSuchFile(const std::string& file) const;

  const Transport& transport() const { return transport_; }
  HttpClient& client() const { return *transport_.client; }

 private:
  Transport transport_;
  std::string name_;
  mutable std::mutex mutex_;
  // Errors are kNotFound; others are not kept.
  mutable std::map<std::string, Result<ByteSourcePtr>> opened_;
};

// Those of the names (with '/' between parts) directly in `folder` that end in `suffix`, without
// the folder, sorted.
std::vector<std::string> NamesIn(const std::vector<std::string>& names, const std::string& folder,
                                 std::string_view suffix);

}  // namespace moepack::remote
