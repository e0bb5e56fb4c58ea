// Slows down before a server refuses: what is left of its limit is spread over its window.
#pragma once

#include <chrono>

#include "libshard/remote/http/retry.h"

namespace moepack::remote {

// Decides when requests to one part of a server may be made. Not thread-safe.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::time_point<Clock, Seconds>;

  // Takes note of what an answer received at `now` says by RateLimit, if anything.
  void Note(const HttpFields& fields, Time now);
  // The turn of a request that could be made at `now`: later if few are left. Each gets its own
  // turn, none after the end of the window.
  Time Take(Time now);

 private:
  Time next_{}, end_{};
  Seconds gap_{0};
};

}  // namespace moepack::remote
