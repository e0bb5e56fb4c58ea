// When a request is repeated, and after what pause.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libshard/base/result.h"

namespace moepack::remote {

using Seconds = std::chrono::duration<double>;

// Header fields of an answer; names in lower case, in the order received.
using HttpFields = std::vector<std::pair<std::string, std::string>>;
// The first field of this name, or "".
std::string_view FieldOf(const HttpFields& fields, std::string_view name);

// The contents of RateLimit: `left` requests until its window ends after `window`.
struct RequestsLeft {
  uint64_t left = 0;
  Seconds window{0};
};
std::optional<RequestsLeft> RequestsLeftOf(const HttpFields& fields);

struct RetryRule {
  int tries = 5;                 // of each request, at least
  Seconds first{0.5}, most{30};  // pauses double from the first to the longest
  Seconds most_asked{120};       // longest pause a server may ask for
  Seconds patience{300};         // without any progress of the run, before it gives up
};

// 408, 429, 500, 502, 503, 504: the same request may succeed later.
bool IsTransient(int status);
// The pause that the server asked for by RateLimit (t seconds until its window ends, used if
// nothing is left) or Retry-After (seconds, or a date).
std::optional<Seconds> AskedPause(const HttpFields& fields);
// The pause after try number `tried` (from 1) failed: the rule's, half of it at random so that many
// clients do not come back at once, after what the server asked for, which may be 0.
Seconds PauseAfter(const RetryRule& rule, int tried, const HttpFields& fields);

}  // namespace moepack::remote
