// What a registry's refusal is in words.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/http_client.h"

namespace moepack::registry {

// Who asked for what.
struct RefusedRequest {
  std::string what;         // "oci://host/x: blob sha256:..."
  std::string host;         // that was asked
  std::string scopes;       // "repository:x:pull,push"
  std::string credentials;  // Authorizer::Shown()
};

// The code and message of the error JSON that the specification asks for, or how a text begins:
// `MANIFEST_UNKNOWN: "manifest unknown"`. "" where nothing of it may be shown, "a web page" with
// its title for what proxies answer.
std::string RegistryWords(const remote::HttpReply& reply);
// kNotFound for 404, kUnavailable where another try may succeed, else kIo.
Error RegistryError(const RefusedRequest& refused, const remote::HttpReply& reply);

}  // namespace moepack::registry
