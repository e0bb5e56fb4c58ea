// Who the user is to a registry, according to the options, the environment and the files of docker,
// podman and skopeo.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::registry {

struct Credentials {
  enum class Kind : uint8_t {
    kNone,
    kBasic,          // a user and a password
    kIdentityToken,  // the token server exchanges it for bearer tokens
    kBearer,         // a token that the registry accepts as it is
  };
  Kind kind = Kind::kNone;
  std::string user;    // for kBasic; for messages with kIdentityToken; or ""
  std::string secret;  // the password or token: never in messages
  std::string from;    // "~/.docker/config.json"; "" for kNone

  // "credentials from ~/.docker/config.json (user u)", "no credentials".
  std::string Shown() const;
};

// What the command line gives: a user with a password, or a token, or nothing.
struct GivenCredentials {
  std::string user, password, token;
  std::string from;  // the option that gave the secret

  bool empty() const { return user.empty() && password.empty() && token.empty(); }
};

// The first that exists of: `given`; MOEPACK_REGISTRY_TOKEN, or MOEPACK_REGISTRY_USERNAME with
// MOEPACK_REGISTRY_PASSWORD; and what the files of CredentialFiles() have for this registry. `host`
// is "host" or "host:port" as the user named it, in lower case; `repository` is "a/b" or "".
// Errors: kInvalidArgument for half of a pair and for values that no header can hold, and those of
// CredentialsOfFile. No message contains any part of a secret.
Result<Credentials> FindCredentials(const GivenCredentials& given, const std::string& host,
                                    const std::string& repository);

// The files that are read, first to last: REGISTRY_AUTH_FILE, config.json of docker
// ($DOCKER_CONFIG, ~/.docker), auth.json of podman and skopeo ($XDG_RUNTIME_DIR/containers,
// ${XDG_CONFIG_HOME:-~/.config}/containers). They need not exist.
std::vector<std::filesystem::path> CredentialFiles();

// The credentials from one file: a helper of credHelpers for this host, otherwise that of
// credsStore, otherwise the entry of auths whose key is the longest part of host/repository. No
// value if there are none. The formats: github.com/docker/cli, cli/config/configfile, and
// containers-auth.json(5). Errors: kCorrupt for a file that is not JSON or has something else
// instead of credentials, and those of AskCredentialHelper and of reading.
Result<std::optional<Credentials>> CredentialsOfFile(const std::filesystem::path& file,
                                                     const std::string& host,
                                                     const std::string& repository);

// Whether `token` can be the value of a header: visible ASCII characters, at most 32 KiB.
bool IsHeaderToken(const std::string& token);

}  // namespace moepack::registry
