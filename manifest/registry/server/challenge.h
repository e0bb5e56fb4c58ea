// A registry's answer to a request that needs a login: WWW-Authenticate (RFC 9110, section 11), and
// the two schemes of it that registries use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/remote/http/retry.h"

namespace moepack::registry {

struct Challenge {
  enum class Scheme : uint8_t { kBasic, kBearer, kOther };
  Scheme scheme = Scheme::kOther;
  std::string name;   // the scheme as spelled by the server
  std::string realm;  // for kBearer: the address of the token server
  // For kBearer; scopes are separated by blanks.
  std::string service, scope;

  bool operator==(const Challenge&) const = default;
};

// The challenges of one field, in their order. The text may be hostile: only what precedes the
// first invalid part counts, and at most 16 challenges. If a parameter is given twice, the first
// counts.
std::vector<Challenge> ParseChallenges(std::string_view text);
// Those of all WWW-Authenticate fields.
std::vector<Challenge> ChallengesOf(const remote::HttpFields& fields);

}  // namespace moepack::registry
