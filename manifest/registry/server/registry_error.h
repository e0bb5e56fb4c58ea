// Puts a registry's refusal into words.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"

namespace moepack::registry {

// Who requested what.
struct RefusedRequest {
  std::string what;         // "oci://host/x: blob sha256:..."
  std::string host;         // that was contacted
  std::string scopes;       // "repository:x:pull,push"
  std::string credentials;  // Authorizer::Shown()
  bool elsewhere = false;   // the registry led to `host`, which got no credentials
};

// The code and message of the error JSON that the specification requires, or the beginning of a
// text: `MANIFEST_UNKNOWN: "manifest unknown"`. "" if nothing of it may be shown; "a web page" with
// its title for answers of proxies.
std::string RegistryWords(const remote::HttpReply& reply);
// kNotFound for 404, kUnavailable if another try may succeed, otherwise kIo.
Error RegistryError(const RefusedRequest& refused, const remote::HttpReply& reply);

}  // namespace moepack::registry
