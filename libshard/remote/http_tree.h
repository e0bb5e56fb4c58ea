// https://host/path/: a directory of a web server.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/remote/remote_tree.h"

namespace moepack::remote {

// The page that the server generates for a directory shows which files there are; if it generates
// none, the usual names of checkpoints are requested.
class HttpTree final : public RemoteTree {
 public:
  // `directory` may have a user and a password, which are sent only to its server. `query` is sent
  // with requests for the file `named`, as its address may be signed.
  HttpTree(Transport transport, const Url& directory, std::string named = "",
           std::string query = "");

  std::string NameOf(const std::string& file) const override;
  Result<std::vector<std::string>> List(const std::string& folder,
                                        std::string_view suffix) const override;
  Result<bool> Has(const std::string& file) const override;

 protected:
  Result<ByteSourcePtr> OpenNew(const std::string& file) const override;

 private:
  Result<std::vector<std::string>> FilesIn(const std::string& folder) const;

  Url directory_;
  std::string named_, query_;
  mutable std::atomic<bool> warned_{false}, named_refused_{false};
  mutable std::mutex mutex_;
  mutable std::map<std::string, std::vector<std::string>> listings_;  // by folder
};

// A directory, or a file in one if the address ends like those of checkpoints.
Result<Source> OpenHttp(const Transport& transport, const Url& url);

}  // namespace moepack::remote
