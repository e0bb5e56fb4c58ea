// A registry that requires tokens, and the server that issues them, on two FaultServers with their
// own clock.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/remote/support/fault_server.h"

namespace moepack::remote {

class FakeLogin {
 public:
  FakeLogin();

  FaultServer& registry() { return registry_; }
  FaultServer& token_server() { return token_server_; }
  // The registry's reply to unknown users.
  std::string Challenge() const;

  std::chrono::steady_clock::time_point Now() const;
  void Advance(std::chrono::milliseconds time) { milliseconds_ += time.count(); }
  // The scopes requested for each token, in order: "a b" for two.
  std::vector<std::string> asked_scopes() const;
  // Revokes all of them.
  void ForgetTokens();

  // Set them before the first request.
  std::string user = "me", password = "confidential", identity_token;  // "" for none
  bool anonymous = false;                                              // also accepted for tokens
  int life = 300;                                             // seconds that a token is valid
  std::string answer = "\"token\":\"T\",\"expires_in\":300";  // T becomes the token
  std::string realm;                                          // another than that of token_server()

 private:
  struct Given {
    std::set<std::string> scopes;
    int64_t end = 0;
  };
  void AnswerRegistry(const FakeRequest& request, FakeAnswer& answer);
  void AnswerToken(const FakeRequest& request, FakeAnswer& answer);
  bool Knows(const FakeRequest& request) const;
  bool Allows(const std::string& header, const std::vector<std::string>& repositories);

  mutable std::mutex mutex_;
  std::map<std::string, Given> tokens_;  // by the value of the header
  std::vector<std::string> asked_;
  std::atomic<int64_t> milliseconds_{0};
  FaultServer registry_, token_server_;
};

// The values of a parameter of a query or a form, in order.
std::vector<std::string> ParametersOf(const std::string& query, const std::string& name);

}  // namespace moepack::remote
