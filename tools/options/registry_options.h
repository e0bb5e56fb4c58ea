// How to reach a registry and how to authenticate: the options of every command that takes a
// reference to one.
#pragma once

#include <CLI/App.hpp>
#include <memory>
#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_settings.h"
#include "manifest/registry/server/authorizer.h"

namespace moepack::cli {

// A secret is never a word of the command line, which other users of the machine can see.
struct RegistryArguments {
  std::string username, password_file, token_file;  // "" for none
  bool password_stdin = false;
  bool plain_http = false, plain_http_credentials = false;
  std::string ca_file, client_cert, client_key;  // "" for none
  bool insecure = false;
  // The contents of standard input: a command that opens two repositories reads it once.
  std::shared_ptr<std::string> input = std::make_shared<std::string>();
};
// --username, --password-stdin, --password-file, --token-file, --plain-http,
// --plain-http-credentials, --cacert, --client-cert, --client-key, --insecure-skip-verify. An app
// that already has --plain-http keeps its own, and passes its value on.
void AddRegistryOptions(CLI::App& app, RegistryArguments& arguments);

// An option that has no effect because `reference` does not name a registry.
Error NoRegistry(const char* option, const std::string& reference);
// Refuses options that have no effect because `reference` does not name a registry.
Status CheckRegistryUse(const RegistryArguments& arguments, const std::string& reference);

// What requests to one registry need.
struct RegistryAccess {
  remote::HttpSettings settings;
  registry::AuthorizerPtr authorizer;
};
// `host` is as the user named it: "docker.io", "registry.example:5000"; `repository` is "a/b".
// Reads what the options name, and certificates for this host; credentials from the environment and
// files only once the registry asks for them. Prints a warning each time servers are not verified.
// kInvalidArgument for options that contradict each other or lack something.
Result<RegistryAccess> OpenRegistryAccess(const RegistryArguments& arguments,
                                          const std::string& host, const std::string& repository);

}  // namespace moepack::cli
