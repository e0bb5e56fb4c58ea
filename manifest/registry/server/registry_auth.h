// Logging in to a registry: user and password with every request (Basic), or tokens of a token
// server for what is asked for (Bearer).
#pragma once

#include <chrono>
#include <functional>

#include "libshard/base/result.h"
#include "libshard/remote/http_client.h"
#include "manifest/registry/server/address_kind.h"
#include "manifest/registry/server/authorizer.h"
#include "manifest/registry/server/credentials.h"

namespace moepack::registry {

struct RegistryAuthOptions {
  remote::HttpClientPtr client;  // asks token servers
  // Called once, when the registry first asks who we are: until then no file is read and no helper
  // is run.
  std::function<Result<Credentials>()> find;
  // Credentials may go over http to other machines.
  bool plain_http_credentials = false;
  // Those of the system unless a test has others. The clock must never go back.
  std::function<std::chrono::steady_clock::time_point()> now = std::chrono::steady_clock::now;
  Resolve resolve = ResolveBySystem;
};

// Tokens are kept for each token server, service and set of scopes, and asked for anew when 20 % of
// their life is left, or 60 s of a life of two minutes and more. Threads that want the same token
// ask for it once.
//
// A token server is named by the registry, and gets the user and the password, or the identity
// token, that are for the registry: so the protocol has it. It is asked by https, unless the
// registry itself is reached by http; it is on no private network unless the registry is on it too
// (MayLead). What its name leads to is looked up before, and by libcurl again: a name that changes
// in between is not noticed.
//
// Refused() returns false for Basic credentials, for tokens that the user gave, and for a token of
// a token server that is fresh: whoever got it less than half its life ago (at most 5 s) would get
// the same again. Its errors: kUnsupported when nothing can be done with the challenge,
// kInvalidArgument for credentials that would go over http, kIo for a token server that is refused,
// those of `find`. HeaderFor() has those of AskForToken.
AuthorizerPtr MakeRegistryAuth(RegistryAuthOptions options);

}  // namespace moepack::registry
