// What a registry answers to a request that it wants a login for: WWW-Authenticate (RFC 9110,
// section 11), and the two schemes of it that registries use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/remote/retry.h"

namespace moepack::registry {

struct Challenge {
  enum class Scheme : uint8_t { kBasic, kBearer, kOther };
  Scheme scheme = Scheme::kOther;
  std::string name;   // the scheme as the server spells it
  std::string realm;  // of kBearer: the address of the token server
  // Of kBearer; scopes have blanks between them.
  std::string service, scope;

  bool operator==(const Challenge&) const = default;
};

// The challenges of one field, in their order. The text may be hostile: what stands before the
// first thing that is no challenge counts, and at most 16 challenges do. Of a parameter that is
// given twice the first counts.
std::vector<Challenge> ParseChallenges(std::string_view text);
// Those of all WWW-Authenticate fields.
std::vector<Challenge> ChallengesOf(const remote::HttpFields& fields);

}  // namespace moepack::registry
