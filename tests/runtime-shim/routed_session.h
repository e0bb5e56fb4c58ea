// A session without a model, whose observer sees routing that depends only on the token.
#pragma once

#include <functional>
#include <vector>

#include "tests/runtime-shim/fake_session.h"

namespace moepack::runtime {

class RoutedSession : public FakeSession {
 public:
  // Logits [vocabulary] after a token, and the choice of the only MoE layer (0, four experts) for
  // it.
  using LogitsAfter = std::function<std::vector<float>(uint32_t token)>;
  using ChosenFor = std::function<Selection(uint32_t token)>;

  RoutedSession(const LogitsAfter& logits, ChosenFor chosen, uint32_t context,
                RoutingObserver* observer)
      : FakeSession([logits](uint32_t, uint32_t token) { return logits(token); }, context),
        chosen_(std::move(chosen)),
        observer_(observer) {}

  Result<std::vector<float>> Feed(std::span<const uint32_t> tokens, LogitsOf which) override {
    const uint32_t first = length();
    auto logits = FakeSession::Feed(tokens, which);
    if (logits && observer_) Show(first, tokens);
    return logits;
  }

 private:
  // Router logits rank the chosen experts in order, 1 apart, far above the others.
  void Show(uint32_t first, std::span<const uint32_t> tokens) {
    constexpr uint32_t kExperts = 4;
    std::vector<Selection> chosen;
    std::vector<float> logits, ones;
    for (const uint32_t token : tokens) {
      chosen.push_back(chosen_(token));
      std::vector<float> row(kExperts, 0);
      for (size_t i = 0; i < chosen.back().ids.size(); ++i) {
        row[chosen.back().ids[i]] = 9.0f - static_cast<float>(i);
        ones.push_back(1);
      }
      logits.insert(logits.end(), row.begin(), row.end());
    }
    RoutedBatch batch;
    batch.first_position = first;
    batch.tokens = static_cast<uint32_t>(tokens.size());
    batch.expert_count = kExperts;
    batch.logits = logits;
    batch.chosen = chosen;
    batch.output_norms = ones;
    batch.output_peaks = ones;
    observer_->Observe(batch);
  }

  ChosenFor chosen_;
  RoutingObserver* observer_;
};

}  // namespace moepack::runtime
