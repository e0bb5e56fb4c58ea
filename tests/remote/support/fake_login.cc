#include "tests/remote/support/fake_login.h"

#include <algorithm>

#include "libshard/base/text/base64.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/url.h"

namespace moepack::remote {
namespace {

// "/v2/a/b/blobs/uploads/" -> "a/b".
std::string RepositoryOf(const std::string& path) {
  size_t end = std::string::npos;
  for (const char* part : {"/blobs/", "/manifests/", "/tags/"})
    end = std::min(end, path.find(part));
  return path.starts_with("/v2/") && end != std::string::npos ? path.substr(4, end - 4) : "";
}

}  // namespace

std::vector<std::string> ParametersOf(const std::string& query, const std::string& name) {
  std::vector<std::string> values;
  for (const std::string& pair : Split(query, '&')) {
    if (pair.starts_with(name + "=")) values.push_back(DecodePercent(pair.substr(name.size() + 1)));
  }
  return values;
}

FakeLogin::FakeLogin() {
  registry_.SetFault(
      [this](const FakeRequest& request, FakeAnswer& out) { AnswerRegistry(request, out); });
  token_server_.SetFault(
      [this](const FakeRequest& request, FakeAnswer& out) { AnswerToken(request, out); });
}

std::chrono::steady_clock::time_point FakeLogin::Now() const {
  return std::chrono::steady_clock::time_point(std::chrono::milliseconds(milliseconds_.load()));
}

std::string FakeLogin::Challenge() const {
  return Cat("Bearer realm=\"", realm.empty() ? token_server_.origin() + "/token?x=1" : realm,
             "\",service=\"the registry\",scope=\"registry:catalog:*\"");
}

std::vector<std::string> FakeLogin::asked_scopes() const {
  const std::lock_guard lock(mutex_);
  return asked_;
}

void FakeLogin::ForgetTokens() {
  const std::lock_guard lock(mutex_);
  tokens_.clear();
}

bool FakeLogin::Allows(const std::string& header, const std::vector<std::string>& repositories) {
  const std::lock_guard lock(mutex_);
  const auto found = tokens_.find(header);
  if (found == tokens_.end() || milliseconds_ >= found->second.end) return false;
  return std::all_of(repositories.begin(), repositories.end(), [&](const std::string& name) {
    return std::any_of(found->second.scopes.begin(), found->second.scopes.end(),
                       [&](const std::string& scope) {
                         return scope.starts_with(Cat("repository:", name, ":pull"));
                       });
  });
}

void FakeLogin::AnswerRegistry(const FakeRequest& request, FakeAnswer& out) {
  std::vector<std::string> repositories = ParametersOf(request.query, "from");
  if (const std::string name = RepositoryOf(request.path); !name.empty())
    repositories.push_back(name);
  if (Allows(request.Field("authorization"), repositories)) {
    out = Plain(200, "done");
    return;
  }
  out = Plain(401, "{\"errors\":[{\"code\":\"UNAUTHORIZED\"}]}");
  out.Set("WWW-Authenticate", Challenge());
}

bool FakeLogin::Knows(const FakeRequest& request) const {
  const std::string basic = Cat("Basic ", EncodeBase64(Cat(user, ":", password)));
  if (request.method == "POST") {
    return !identity_token.empty() &&
           ParametersOf(request.body, "grant_type") == std::vector<std::string>{"refresh_token"} &&
           ParametersOf(request.body, "refresh_token") == std::vector<std::string>{identity_token};
  }
  const std::string header = request.Field("authorization");
  return header == basic || (anonymous && header.empty());
}

void FakeLogin::AnswerToken(const FakeRequest& request, FakeAnswer& out) {
  if (!Knows(request)) {
    out = Plain(401, "{\"details\":\"incorrect username or password\"}");
    return;
  }
  const std::string& form = request.method == "POST" ? request.body : request.query;
  std::vector<std::string> scopes = ParametersOf(form, "scope");
  if (request.method == "POST" && !scopes.empty()) scopes = Split(scopes[0], ' ');
  const std::lock_guard lock(mutex_);
  asked_.push_back(Join(scopes, " "));
  const std::string token = Cat("token-", asked_.size());
  tokens_[Cat("Bearer ", token)] = {{scopes.begin(), scopes.end()},
                                    milliseconds_ + int64_t{1000} * life};
  std::string text = answer;
  if (const size_t at = text.find("\"T\""); at != std::string::npos) text.replace(at + 1, 1, token);
  out = Plain(200, Cat("{", text, "}"));
  out.Set("Content-Type", "application/json");
}

}  // namespace moepack::remote
