// Evaluations of made-up sessions, whose figures can be told by hand.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "runtime-shim/eval/evaluate.h"
#include "tests/runtime-shim/routed_session.h"

namespace moepack::runtime {

// Vocabulary of two: after any token, 0 has this probability.
inline RoutedSession::LogitsAfter Coin(double zero) {
  return [zero](uint32_t) {
    return std::vector<float>{static_cast<float>(std::log(zero)),
                              static_cast<float>(std::log(1 - zero))};
  };
}

// Token 0 uses experts 0 and 1, token 1 uses 2 and 3.
inline Selection Halves(uint32_t token) { return {{2 * token, 2 * token + 1}, {0.75f, 0.25f}}; }

inline Participant Player(const std::string& label, double zero, ExpertIds eligible,
                          const EvalOptions& options) {
  return {label, {{0, std::move(eligible)}}, [zero, &options](RoutingObserver* observer) {
            return Result<std::unique_ptr<Session>>(
                std::make_unique<RoutedSession>(Coin(zero), Halves, options.context, observer));
          }};
}

class Evaluation : public ::testing::Test {
 protected:
  Evaluation() {
    options_.context = 8;
    options_.chunk = 3;
    options_.generate = 4;
    Routing router;
    router.expert_count = 4;
    router.top_k = 2;
    input_.routers = {{0, router}};
    input_.full = Player("unmasked", 0.5, {0, 1, 2, 3}, options_);
    input_.groups = {Player("group 0", 0.75, {0, 1}, options_),
                     Player("group 1", 0.25, {2, 3}, options_)};
    sessions_ = {{"zeros", "code", {0, 0, 0, 0, 0}}, {"ones", "", {1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}};
  }
  std::vector<SessionMeasure> Run() {
    auto measures = Evaluate(input_, sessions_, options_);
    EXPECT_TRUE(measures) << (measures ? "" : measures.error().message);
    return measures ? *measures : std::vector<SessionMeasure>{};
  }

  EvalOptions options_;
  EvalInput input_;
  std::vector<TokenSession> sessions_;
};

}  // namespace moepack::runtime
