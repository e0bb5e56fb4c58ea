// Logging in to a registry: user and password with every request (Basic), or tokens from a token
// server for what is requested (Bearer).
#pragma once

#include <chrono>
#include <functional>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"
#include "manifest/registry/server/address_kind.h"
#include "manifest/registry/server/authorizer.h"
#include "manifest/registry/server/credentials.h"

namespace moepack::registry {

struct RegistryAuthOptions {
  remote::HttpClientPtr client;  // asks token servers
  // Called once, when the registry first requires authentication: before that no file is read and
  // no helper is run.
  std::function<Result<Credentials>()> find;
  // Credentials may be sent over http to other machines.
  bool plain_http_credentials = false;
  // The system's, unless a test provides another. The clock must never go back.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  Resolve resolve = ResolveBySystem;
};

// Tokens are kept for each token server, service and set of scopes, and renewed when 20 % of their
// life is left, or 60 s of a life of two minutes or more. Threads that need the same token request
// it once.
//
// The registry names the token server, which gets the user and password, or the identity token, for
// the registry, as the protocol requires. It is contacted by https, unless the registry itself is
// reached by http; it must not be on a private network unless the registry is on it, too (MayLead).
// Its name is resolved here first and by libcurl again: a change in between is not noticed.
//
// Refused() returns false for Basic credentials, for tokens that the user gave, and for a fresh
// token of a token server: requesting one again within half its life (at most 5 s) would give the
// same. Its errors: kUnsupported if the challenge cannot be answered, kInvalidArgument for
// credentials that would be sent over http, kIo for a refused token server, and those of `find`.
// HeaderFor() has those of AskForToken.
AuthorizerPtr MakeRegistryAuth(RegistryAuthOptions options);

}  // namespace moepack::registry
