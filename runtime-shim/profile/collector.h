// Fills Statistics from the routing of sessions.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/import/route_trace.h"
#include "libshard/stats/statistics.h"
#include "runtime-shim/profile/second_moments.h"
#include "runtime-shim/profile/window_tokens.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// Call StartSession for each session, StartWindow for each of its windows, and Feeding before every
// Session::Feed. Several windows may be open at once, each in its own slot: the calls are for the
// slot that was selected last, and each slot has an observer. The statistics are those of one
// window after another in the order of StartWindow if observers are called in that order.
class StatisticsCollector : public RoutingObserver {
 public:
  // `bos` is excluded from everything but peaks, at any position.
  StatisticsCollector(const ModelIdentity& model, std::optional<uint32_t> bos);

  // From now on every choice goes to `trace` as well, including sinks: sessions are its turns, and
  // positions continue through the windows of a session. Borrowed.
  void TraceTo(TraceWriter& trace) { trace_ = &trace; }
  // From now on `moments` counts while tokens are read, but not while they are generated. Borrowed.
  void MomentsTo(SecondMoments& moments) { moments_ = &moments; }

  // The windows of earlier sessions, which another collector counts, had so many tokens. Before
  // the first session.
  void StartAt(uint64_t tokens) { total_ = tokens; }

  // Slot 0 is selected at first.
  void Select(size_t slot);
  // Borrows the collector.
  RoutingObserver& ObserverOf(size_t slot);

  void StartSession(const std::string& name, const std::string& bucket, const std::string& executor,
                    const std::string& precision, const std::string& tokens_digest = "");
  // Declares that the next token is at position 0 again.
  void StartWindow();
  void Feeding(Phase phase, std::span<const uint32_t> tokens);

  bool wants_outputs() const override { return true; }
  // For the selected slot.
  void Observe(const RoutedBatch& batch) override { Observe(batch, selected_); }

  const Statistics& statistics() const { return statistics_; }

 private:
  // An open window.
  struct Slot {
    explicit Slot(std::optional<uint32_t> bos) : tokens(bos) {}
    size_t session = 0;
    Phase phase = Phase::kPrefill;
    WindowTokens tokens;
    uint64_t before = 0;         // the tokens of all earlier windows
    uint64_t session_start = 0;  // those of all earlier sessions
  };
  class SlotObserver;

  void Observe(const RoutedBatch& batch, size_t slot);
  void Count(const RoutedBatch& batch, uint32_t token, const Slot& slot, LayerTally& layer) const;
  void Trace(const RoutedBatch& batch, const Slot& slot);
  void CountPairs(const Selection& chosen, uint32_t expert_count,
                  std::vector<uint64_t>& pairs) const;

  Statistics statistics_;
  std::optional<uint32_t> bos_;
  std::vector<Slot> slots_;
  std::vector<std::unique_ptr<RoutingObserver>> observers_;  // of slots
  size_t selected_ = 0;
  uint64_t total_ = 0;          // tokens of all windows
  uint64_t session_start_ = 0;  // those before the current session
  TraceWriter* trace_ = nullptr;
  SecondMoments* moments_ = nullptr;
};

}  // namespace moepack::runtime
