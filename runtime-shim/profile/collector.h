// Fills Statistics from the routing of sessions.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/import/trace_write.h"
#include "libshard/stats/statistics.h"
#include "runtime-shim/profile/second_moments.h"
#include "runtime-shim/profile/window_tokens.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// Call StartSession for each session, StartWindow for each of its windows, and Feeding before every
// Session::Feed.
class StatisticsCollector : public RoutingObserver {
 public:
  // `bos` is left out of everything but peaks, at any position.
  StatisticsCollector(const ModelIdentity& model, std::optional<uint32_t> bos);

  // From now on every choice goes to `trace` as well, sinks included: sessions are its turns, and
  // positions count through the windows of a session. Borrowed.
  void TraceTo(TraceWriter& trace) { trace_ = &trace; }
  // From now on `moments` count while tokens are read, and not while they are generated. Borrowed.
  void MomentsTo(SecondMoments& moments) { moments_ = &moments; }

  void StartSession(const std::string& name, const std::string& bucket, const std::string& executor,
                    const std::string& precision);
  // Says that the next token is at position 0 again.
  void StartWindow();
  void Feeding(Phase phase, std::span<const uint32_t> tokens);

  bool wants_outputs() const override { return true; }
  void Observe(const RoutedBatch& batch) override;

  const Statistics& statistics() const { return statistics_; }

 private:
  void Count(const RoutedBatch& batch, uint32_t token, LayerTally& layer) const;
  void Trace(const RoutedBatch& batch);
  void CountPairs(const Selection& chosen, uint32_t expert_count,
                  std::vector<uint64_t>& pairs) const;

  Statistics statistics_;
  Phase phase_ = Phase::kPrefill;
  WindowTokens window_;
  uint64_t before_ = 0;         // the tokens of all earlier windows
  uint64_t session_start_ = 0;  // those of all earlier sessions
  TraceWriter* trace_ = nullptr;
  SecondMoments* moments_ = nullptr;
};

}  // namespace moepack::runtime
