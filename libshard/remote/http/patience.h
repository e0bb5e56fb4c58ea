// When a run gives up on a server: after a few tries of one request if no server ever answered, and
// otherwise once it has made no progress for minutes, however many requests failed.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include "libshard/remote/http/retry.h"

namespace moepack::remote {

// Shared by the requests of a run; thread-safe.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;
  using Time = std::chrono::time_point<Clock, Seconds>;
  // The failed tries of one request.
  struct Failures {
    int tries = 0;
    int unheard = 0;    // of these, the last ones since the run made progress
    uint64_t seen = 0;  // progress of the run when it was last looked at
  };

  explicit Patience(const RetryRule& rule) : rule_(rule) {}

  // A request got its answer, or a part of the work is done.
  void Note(Time now);
  // Bytes that a failed try leaves for the next one; true if they are progress, of a MiB together.
  bool Keep(uint64_t bytes, Time now);
  // A try failed: counts it and returns whether it was the last. Every request has
  // RetryRule::tries. More follow if the run has made progress at all: where nobody was reached,
  // those after other requests made progress meanwhile, and otherwise those within
  // RetryRule::patience of the last progress.
  // If it has made none, the first request that used up its tries ends all others, too.
  bool IsOver(Failures& failures, bool reached, Time now);
  // Ends a run that has not made any progress; false if it has.
  bool EndUnanswered();

 private:
  const RetryRule rule_;
  std::mutex mutex_;
  uint64_t steps_ = 0, kept_ = 0;
  bool unanswered_ = false;  // ended without any progress
  Time last_{};
};

// " (5 tries)"; " (9 tries, no progress for 300 s)" if it were more than the rule's.
std::string TriesText(const RetryRule& rule, const Patience::Failures& failures);

}  // namespace moepack::remote
