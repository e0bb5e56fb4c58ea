// A small model, and statistics of it with all kinds of values.
#pragma once

#include "libshard/stats/statistics.h"

namespace moepack {

inline ModelIdentity SampleModel() {
  ModelIdentity model;
  model.name = "tiny";
  model.architecture = "qwen3moe";
  model.model_version = "m1";
  model.router_digest = "00112233445566778899aabbccddeeff";
  model.layers = {{1, 4, 2}, {3, 3, 1}};
  return model;
}

inline Statistics SampleStatistics() {
  Statistics statistics = EmptyStatistics(SampleModel());
  SessionTally session{"a.txt", "code", "cpu", "q4_K+f32", {}};
  PhaseTally& prefill = session.phases[0];
  prefill.tokens = 300;
  prefill.sinks = 2;
  prefill.layers = {LayerTally(4), LayerTally(3)};
  prefill.layers[0][1] = {200, 91.125, 40.5, 1e-7, 0.1f};
  prefill.layers[0][2] = {300, 150.5, 70, 30, 2};
  prefill.layers[0][3] = {100, 0.1, 0, 3.3e8, 1e30f};
  prefill.layers[1][0] = {300, 300, 128, 12, 1};
  prefill.layers[1][2].peak = 7;
  session.token_counts = {{0, 1}, {3, 200}, {70000, 90}};
  statistics.sessions = {session, {"b", "", "cuda", "f32", {}}};
  statistics.co_selection[0] = {1, 0, 300, 5, 0, 200};
  return statistics;
}

}  // namespace moepack
