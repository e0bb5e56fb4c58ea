// One file of credentials: config.json of docker, auth.json of podman and skopeo.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/base64.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/remote/http/http_settings.h"
#include "manifest/registry/server/credential_helper.h"
#include "manifest/registry/server/credentials.h"

namespace moepack::registry {
namespace {

constexpr uint64_t kMostFile = 1u << 20;
constexpr const char* kHubKey = "https://index.docker.io/v1/";

bool IsHub(const std::string& host) {
  return host == "docker.io" || host == "index.docker.io" || host == "registry-1.docker.io";
}

// "https://Host/v1/" -> "host"; "host/namespace" is unchanged. What follows the host of a key with
// a scheme is the API that was used for the login, not a namespace.
std::string PlaceOfKey(const std::string& key) {
  std::string_view text = key;
  const size_t scheme = text.find("://");
  if (scheme != text.npos) text.remove_prefix(scheme + 3);
  while (text.ends_with('/')) text.remove_suffix(1);
  const size_t slash = std::min(text.find('/'), text.size());
  const std::string host = Lower(text.substr(0, slash));
  std::string_view rest = text.substr(slash);
  if (scheme != key.npos || rest == "/v1" || rest == "/v2") rest = "";
  return Cat(IsHub(host) ? "docker.io" : host, rest);
}

bool Covers(const std::string& place, const std::string& wanted) {
  return wanted == place || wanted.starts_with(Cat(place, "/"));
}

// Reads one file; `name` is its name in messages.
class CredentialFile {
 public:
  CredentialFile(std::string name, const Json& document, const std::string& host,
                 const std::string& repository)
      : name_(std::move(name)),
        document_(document),
        host_(IsHub(host) ? "docker.io" : host),
        wanted_(repository.empty() ? host_ : Cat(host_, "/", repository)) {}

  Result<std::optional<Credentials>> Find() const {
    SHARD_TRY(const std::string helper, Helper());
    if (!helper.empty()) {
      SHARD_TRY(std::optional<Credentials> kept, OfHelper(helper));
      if (kept) return kept;
    }
    return OfEntries();
  }

 private:
  Error Wrong(const std::string& key, const char* expected) const {
    return {Code::kCorrupt,
            Cat(name_, ": ", key, ": expected ", expected, ", found something else"),
            "log in again with docker, podman or skopeo, which write this file"};
  }
  // Null if there is no such member.
  Result<const Json*> Member(const Json& object, const std::string& where, const char* key,
                             bool text) const {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) return static_cast<const Json*>(nullptr);
    if (text ? found->is_string() : found->is_object()) return &*found;
    return Wrong(where + key, text ? "a text" : "an object");
  }
  Result<std::string> Text(const Json& object, const std::string& where, const char* key) const {
    SHARD_TRY(const Json* const found, Member(object, where, key, true));
    return found == nullptr ? std::string() : found->get<std::string>();
  }

  // "" for none.
  Result<std::string> Helper() const {
    SHARD_TRY(const Json* const helpers, Member(document_, "", "credHelpers", false));
    if (helpers != nullptr) {
      for (const auto& [key, value] : helpers->items()) {
        if (PlaceOfKey(key) != host_) continue;
        if (!value.is_string())
          return Wrong(Cat("credHelpers[", Quoted(WithoutSecrets(key)), "]"), "a text");
        return value.get<std::string>();
      }
    }
    return Text(document_, "", "credsStore");
  }

  Result<std::optional<Credentials>> OfHelper(const std::string& helper) const {
    const std::string server = host_ == "docker.io" ? kHubKey : host_;
    Result<std::optional<HelperAnswer>> answer = AskCredentialHelper(helper, server);
    if (!answer) return Error(answer.error()).Within(name_);
    if (!*answer) return std::optional<Credentials>();
    const bool token = (*answer)->user == "<token>";
    return std::optional(
        Credentials{token ? Credentials::Kind::kIdentityToken : Credentials::Kind::kBasic,
                    token ? "" : (*answer)->user, (*answer)->secret,
                    Cat("docker-credential-", helper, ", which ", name_, " names")});
  }

  // The longest key that covers the repository and is not empty.
  Result<std::optional<Credentials>> OfEntries() const {
    SHARD_TRY(const Json* const entries, Member(document_, "", "auths", false));
    std::optional<Credentials> best;
    size_t length = 0;
    if (entries == nullptr) return best;
    for (const auto& [key, entry] : entries->items()) {
      const std::string place = PlaceOfKey(key);
      if (place.size() <= length || !Covers(place, wanted_)) continue;
      SHARD_TRY(std::optional<Credentials> found, OfEntry(key, entry));
      if (!found) continue;
      best = std::move(found);
      length = place.size();
    }
    return best;
  }

  Result<std::optional<Credentials>> OfEntry(const std::string& key, const Json& entry) const {
    const std::string where = Cat("auths[", Quoted(WithoutSecrets(key)), "]");
    if (!entry.is_object()) return Wrong(where, "an object");
    SHARD_TRY(const std::string bearer, Text(entry, where + ".", "registrytoken"));
    SHARD_TRY(const std::string identity, Text(entry, where + ".", "identitytoken"));
    SHARD_TRY(Credentials found, OfPair(where, entry));
    if (!bearer.empty()) {
      found.kind = Credentials::Kind::kBearer;
      found.secret = bearer;
    } else if (!identity.empty()) {
      found.kind = Credentials::Kind::kIdentityToken;
      found.secret = identity;
    }
    if (found.kind == Credentials::Kind::kNone) return std::optional<Credentials>();
    found.from = name_;
    return std::optional(std::move(found));
  }

  // "auth", or "username" and "password".
  Result<Credentials> OfPair(const std::string& where, const Json& entry) const {
    SHARD_TRY(const std::string auth, Text(entry, where + ".", "auth"));
    SHARD_TRY(std::string user, Text(entry, where + ".", "username"));
    SHARD_TRY(std::string password, Text(entry, where + ".", "password"));
    if (!auth.empty()) {
      const std::optional<std::string> pair = DecodeBase64(auth);
      const size_t colon = pair ? pair->find(':') : std::string::npos;
      if (colon == std::string::npos || colon == 0)
        return Wrong(where + ".auth", "base64 of user:password");
      user = pair->substr(0, colon);
      password = pair->substr(colon + 1);
      while (password.ends_with('\0')) password.pop_back();  // docker once wrote them
    }
    Credentials found;
    if (!user.empty() && !password.empty()) found.kind = Credentials::Kind::kBasic;
    found.user = std::move(user);
    found.secret = std::move(password);
    return found;
  }

  std::string name_;
  const Json& document_;
  std::string host_, wanted_;
};

// "/home/me/.docker/config.json" -> "~/.docker/config.json".
std::string NameOfFile(const fs::path& file) {
  const std::string home = remote::Environment("HOME"), path = file.string();
  if (!home.empty() && home != "/" && path.starts_with(Cat(home, "/")))
    return Cat("~", path.substr(home.size()));
  return path;
}

}  // namespace

Result<std::optional<Credentials>> CredentialsOfFile(const fs::path& file, const std::string& host,
                                                     const std::string& repository) {
  const std::string name = Shown(NameOfFile(file));
  SHARD_TRY(const bool there, IsThere(file));
  if (!there) return std::optional<Credentials>();
  SHARD_TRY(const std::string text, ReadTextFile(file, kMostFile));
  if (IsBlank(text)) return std::optional<Credentials>();
  // The parser's message is left out: it may quote a password.
  const Result<Json> document = ParseJson(name, text);
  if (!document || !document->is_object()) {
    return Error{Code::kCorrupt, Cat(name, ": expected a JSON object, found something else"),
                 "fix it, or remove it and log in again with docker, podman or skopeo"};
  }
  return CredentialFile(name, *document, host, repository).Find();
}

}  // namespace moepack::registry
