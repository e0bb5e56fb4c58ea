// When a request is repeated, and after how long.
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

// Header fields of an answer; names in lower case, in the order in which they came.
using HttpFields = std::vector<std::pair<std::string, std::string>>;
// The first field of this name, or "".
std::string_view FieldOf(const HttpFields& fields, std::string_view name);

// What RateLimit says: `left` requests until its window ends after `window`.
struct RequestsLeft {
  uint64_t left = 0;
  Seconds window{0};
};
std::optional<RequestsLeft> RequestsLeftOf(const HttpFields& fields);

struct RetryRule {
  int tries = 5;
  Seconds first{0.5}, most{8};  // pauses double from one to the other
  Seconds most_asked{120};      // a server that asks for more is not waited for
};

// 408, 429, 500, 502, 503, 504: the same request may succeed later.
bool IsTransient(int status);
// What the server asked for by RateLimit (t seconds until its window ends, counted when nothing is
// left) or Retry-After (seconds, or a date).
std::optional<Seconds> AskedPause(const HttpFields& fields);
// The pause after try number `tried` (from 1) failed: what the server asked for, or the rule's,
// half of it by chance so that many clients do not come back at once.
Seconds PauseAfter(const RetryRule& rule, int tried, const HttpFields& fields);
// Sleeps; kInterrupted when the user stops the run meanwhile.
Status Pause(Seconds pause);

}  // namespace moepack::remote
