#include "manifest/registry/server/credentials.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/remote/http/http_settings.h"
#include "manifest/registry/server/credential_helper.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;

using remote::Environment;

constexpr size_t kMostToken = 32u << 10;
constexpr size_t kMostPassword = 16u << 10;

constexpr const char* kTokenVariable = "MOEPACK_REGISTRY_TOKEN";
constexpr const char* kUserVariable = "MOEPACK_REGISTRY_USERNAME";
constexpr const char* kPasswordVariable = "MOEPACK_REGISTRY_PASSWORD";

// A user with a ':' cannot be separated from the password (RFC 7617, section 2).
Status CheckBasic(const Credentials& basic) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 127; };
  const auto bad = [&](const std::string& text) {
    return text.size() > kMostPassword || std::any_of(text.begin(), text.end(), control);
  };
  if (!basic.user.empty() && basic.user.find(':') == std::string::npos && !bad(basic.user) &&
      !bad(basic.secret))
    return Ok();
  return Error{Code::kInvalidArgument,
               Cat(basic.from,
                   ": expected a user without ':' and a password, both without control "
                   "characters and of at most 16 KiB, found others")};
}

Status CheckToken(const Credentials& token) {
  if (IsHeaderToken(token.secret)) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(token.from,
                   ": expected a token of visible characters of ASCII, at most 32 KiB, "
                   "found something else"),
               "the file or variable must hold the token and nothing else"};
}

Status CheckFound(const Credentials& found) {
  return found.kind == Credentials::Kind::kBasic ? CheckBasic(found) : CheckToken(found);
}

// From the options or the variables; no value if they give nothing.
Result<std::optional<Credentials>> Choose(const GivenCredentials& given, const char* user_name,
                                          const char* password_name, const char* token_name) {
  if (given.empty()) return std::optional<Credentials>();
  const bool basic = !given.user.empty() || !given.password.empty();
  if (basic && !given.token.empty()) {
    return Error{Code::kInvalidArgument,
                 Cat("give ", token_name, " or ", user_name, " with ", password_name, ", not both"),
                 "leave one of them out"};
  }
  if (basic && (given.user.empty() || given.password.empty())) {
    const bool lacks_user = given.user.empty();
    return Error{Code::kInvalidArgument, Cat(lacks_user ? password_name : user_name, " needs ",
                                             lacks_user ? user_name : password_name)};
  }
  Credentials credentials{basic ? Credentials::Kind::kBasic : Credentials::Kind::kBearer,
                          given.user, basic ? given.password : given.token, given.from};
  SHARD_CHECK(CheckFound(credentials));
  return std::optional(std::move(credentials));
}

GivenCredentials OfEnvironment() {
  GivenCredentials given{Environment(kUserVariable), Environment(kPasswordVariable),
                         Environment(kTokenVariable), ""};
  given.from = given.token.empty() ? kPasswordVariable : kTokenVariable;
  return given;
}

}  // namespace

std::string Credentials::Shown() const {
  if (kind == Kind::kNone) return "no credentials";
  const std::string whose = user.empty() ? "" : Cat(" (user ", moepack::Shown(user), ")");
  return Cat("credentials from ", moepack::Shown(from), whose);
}

bool IsHeaderToken(const std::string& token) {
  return !token.empty() && token.size() <= kMostToken &&
         std::all_of(token.begin(), token.end(), [](char c) { return c > ' ' && c < 127; });
}

std::vector<fs::path> CredentialFiles() {
  std::vector<fs::path> files;
  const fs::path home = Environment("HOME");
  const auto add = [&](const fs::path& directory, const char* rest) {
    if (!directory.empty()) files.push_back(directory / rest);
  };
  if (const std::string named = Environment("REGISTRY_AUTH_FILE"); !named.empty())
    files.emplace_back(named);
  const std::string docker = Environment("DOCKER_CONFIG");
  docker.empty() ? add(home, ".docker/config.json") : add(docker, "config.json");
  add(Environment("XDG_RUNTIME_DIR"), "containers/auth.json");
  const std::string config = Environment("XDG_CONFIG_HOME");
  config.empty() ? add(home, ".config/containers/auth.json") : add(config, "containers/auth.json");
  return files;
}

Result<Credentials> FindCredentials(const GivenCredentials& given, const std::string& host,
                                    const std::string& repository) {
  SHARD_TRY(std::optional<Credentials> found,
            Choose(given, "--username", "--password-stdin or --password-file", "--token-file"));
  if (found) return *std::move(found);
  SHARD_TRY(found, Choose(OfEnvironment(), kUserVariable, kPasswordVariable, kTokenVariable));
  if (found) return *std::move(found);
  for (const fs::path& file : CredentialFiles()) {
    SHARD_TRY(found, CredentialsOfFile(file, host, repository));
    if (!found) continue;
    SHARD_CHECK(CheckFound(*found));
    return *std::move(found);
  }
  return Credentials{};
}

}  // namespace moepack::registry
