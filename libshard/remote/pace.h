// Going slower before a server refuses: what is left of its limit is spread over its window.
#pragma once

#include <chrono>

#include "libshard/remote/retry.h"

namespace moepack::remote {

// When requests to one part of a server may go. Not for several threads at once.
class Pace {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::time_point<Clock, Seconds>;

  // What an answer that came at `now` says by RateLimit, if anything.
  void Note(const HttpFields& fields, Time now);
  // The turn of a request that could go at `now`: later, when few are left. Each gets a turn of its
  // own, none behind the end of the window.
  Time Take(Time now);

 private:
  Time next_{}, end_{};
  Seconds gap_{0};
};

}  // namespace moepack::remote
