// Servers that issue bearer tokens for registries, as in
// https://distribution.github.io/distribution/spec/auth/token/ and .../auth/oauth/.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/remote/http/http_client.h"
#include "manifest/registry/server/credentials.h"

namespace moepack::registry {

struct TokenQuestion {
  remote::Url realm;  // without user and password
  std::string service;
  std::vector<std::string> scopes;  // "repository:a/b:pull,push"
};

struct Token {
  std::string text;  // never in messages
  std::chrono::seconds life{0};
};

// GET with user and password, or without if there are none; POST of a form for an identity token.
// Redirects are only followed within the server. No message shows anything that was sent in
// confidence, or any part of a token. Errors: kIo for a refusal, with the scopes and the kind of
// credentials used, and for an answer without a token; those of HttpClient::Fetch.
Result<Token> AskForToken(remote::HttpClient& client, const TokenQuestion& question,
                          const Credentials& credentials);

// The contents of an answer of 200. A token lives 60 s unless "expires_in" says otherwise, and at
// most a day. "issued_at" shortens its life if it is less than that before `now`, which is the time
// of day; any other value means a wrong clock.
Result<Token> ParseToken(const std::string& name, std::string_view text,
                         std::chrono::system_clock::time_point now);

}  // namespace moepack::registry
