// A token server that docker-registry trusts: it states the user and their permissions in JSON Web
// Tokens that it signs.
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
  // Stores its key there.
  explicit TokenIssuer(const std::filesystem::path& directory);

  FaultServer& server() { return server_; }
  // The top-level part of docker-registry's YAML. `realm`: another address that leads here, "" for
  // its own.
  std::string RegistrySettings(const std::string& realm = "") const;
  // Users have this password. `user` "" stands for anonymous users. `repositories` is the prefix of
  // their names. Everything else is granted to nobody.
  static constexpr const char* kPassword = "confidential";
  void Allow(const std::string& user, const std::string& repositories,
             const std::set<std::string>& actions);
  // The scopes requested for each token, in order: "a b" for two.
  std::vector<std::string> asked_scopes() const;
  // "Bearer ..." with the last token that it issued.
  std::string last() const;

  // In seconds: the lifetime that the client is told, and the one that the registry reads in the
  // token, to which it adds a minute.
  std::atomic<int> told_life{300}, signed_life{300};
  // The registry requires tokens issued for itself.
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
