// Who the user is to a registry, as the options, the environment and the files of docker, podman
// and skopeo say.
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
    kIdentityToken,  // the token server gives bearer tokens for it
    kBearer,         // a token that the registry takes as it is
  };
  Kind kind = Kind::kNone;
  std::string user;    // of kBasic; for messages of kIdentityToken; or ""
  std::string secret;  // the password or token: in no message
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

// The first that is there of `given`; MOEPACK_REGISTRY_TOKEN, or MOEPACK_REGISTRY_USERNAME with
// MOEPACK_REGISTRY_PASSWORD; and what the files of CredentialFiles() have for this registry. `host`
// is "host" or "host:port" as the user named it, in lower case; `repository` is "a/b" or "".
// Errors: kInvalidArgument for half of a pair and for what no header can hold, those of
// CredentialsOfFile. No message has anything of a secret.
Result<Credentials> FindCredentials(const GivenCredentials& given, const std::string& host,
                                    const std::string& repository);

// The files that are looked into, first to last: REGISTRY_AUTH_FILE, config.json of docker
// ($DOCKER_CONFIG, ~/.docker), auth.json of podman and skopeo ($XDG_RUNTIME_DIR/containers,
// ${XDG_CONFIG_HOME:-~/.config}/containers). They need not be there.
std::vector<std::filesystem::path> CredentialFiles();

// What one file says: a helper of credHelpers for this host, else that of credsStore, else the
// entry of auths whose key is the longest part of host/repository. None when it says nothing. The
// formats: github.com/docker/cli, cli/config/configfile, and containers-auth.json(5). Errors:
// kCorrupt for a file that is no JSON or has something else in the place of credentials, those of
// AskCredentialHelper and of reading.
Result<std::optional<Credentials>> CredentialsOfFile(const std::filesystem::path& file,
                                                     const std::string& host,
                                                     const std::string& repository);

// `token` can be the value of a header: visible characters of ASCII, at most 32 KiB.
bool IsHeaderToken(const std::string& token);

}  // namespace moepack::registry
