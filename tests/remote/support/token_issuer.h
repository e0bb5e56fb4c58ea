// A token server that docker-registry believes: it says who it is talking to, and what they may do,
// in JSON Web Tokens that it signs.
// https://github.com/distribution/distribution/blob/v2.8.2/docs/spec/auth/jwt.md
#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/remote/support/fault_server.h"
#include "tests/remote/support/test_authority.h"

namespace moepack::remote {

class TokenIssuer {
 public:
  // Keeps its key there.
  explicit TokenIssuer(const std::filesystem::path& directory);

  FaultServer& server() { return server_; }
  // At the top of docker-registry's YAML. `realm`: another address that leads here, "" for its own.
  std::string RegistrySettings(const std::string& realm = "") const;
  // Users have this password. `user` "" is who gives none. `repositories` is what their names begin
  // with. Everything else is granted to nobody.
  static constexpr const char* kPassword = "confidential";
  void Allow(const std::string& user, const std::string& repositories,
             const std::set<std::string>& actions);
  // The scopes that each token was asked for, in their order: "a b" for two.
  std::vector<std::string> asked_scopes() const;
  // "Bearer ..." of the last token that it gave.
  std::string last() const;

  // In seconds: what the client is told, and what the registry reads in the token, to which it adds
  // a minute.
  std::atomic<int> told_life{300}, signed_life{300};
  // The registry wants tokens that are for itself.
  std::atomic<bool> for_another_service{false};

 private:
  struct Right {
    std::string user, repositories;
    std::set<std::string> actions;
  };
  void Answer(const FakeRequest& request, FakeAnswer& answer);
  std::string Claims(const std::string& user, const std::vector<std::string>& scopes);
  std::string Sign(const std::string& claims) const;

  TestAuthority authority_;
  std::string key_id_;
  mutable std::mutex mutex_;
  std::vector<Right> rights_;
  std::vector<std::string> asked_;
  std::string last_;
  FaultServer server_;
};

}  // namespace moepack::remote
