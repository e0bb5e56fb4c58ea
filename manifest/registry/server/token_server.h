// Servers that give bearer tokens for registries, as
// https://distribution.github.io/distribution/spec/auth/token/ and .../auth/oauth/ have them.
#pragma once

#include <chrono>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/remote/http_client.h"
#include "manifest/registry/server/credentials.h"

namespace moepack::registry {

struct TokenQuestion {
  remote::Url realm;  // without user and password
  std::string service;
  std::vector<std::string> scopes;  // "repository:a/b:pull,push"
};

struct Token {
  std::string text;  // in no message
  std::chrono::seconds life{0};
};

// GET with user and password, or without any where there are none; POST of a form for an identity
// token. Redirects are followed within the server only. No message shows anything that was sent in
// confidence, or anything of a token. Errors: kIo for a refusal, with the scopes and the
// credentials that were used, and for an answer without a token; those of HttpClient::Fetch.
Result<Token> AskForToken(remote::HttpClient& client, const TokenQuestion& question,
                          const Credentials& credentials);

// What an answer of 200 holds. A token lives 60 s unless "expires_in" says otherwise, and a day at
// most. "issued_at" shortens its life where it lies less than that before `now`, which is the time
// of day; everything else that it says is a clock that is wrong.
Result<Token> ParseToken(const std::string& name, std::string_view text,
                         std::chrono::system_clock::time_point now);

}  // namespace moepack::registry
