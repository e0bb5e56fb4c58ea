// ReadRouteTrace in all its forms, and the uses of the trace: scores and a replay.
#include "libshard/import/route_trace.h"

#include "libshard/base/files/memory_tree.h"
#include "libshard/replay/cache_replay.h"
#include "tests/fuzz/target.h"

namespace route_trace_target {

constexpr const char* kPath = "damaged.csv";

std::vector<std::string> Seeds() {
  return {
      "# route_trace v1\n"
      "# model=m arch=a n_layer=2 n_expert=4 n_expert_used=2\n"
      "# layer=0 expert_bytes=9 dense_bytes=0 experts=4\n"
      "# turn=0 {\"session\":\"a\",\"bucket\":\"b\"}\n"
      "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n"
      "0,0,0,0,0,3,0.75,1,0\n0,0,0,0,1,1,0.25,1,0\n0,0,0,1,0,2,nan,1,0\n"
      "0,1,1,0,0,0,0.5,1,0\n0,1,1,1,0,2,0.5,1,0\n",
      "layer,expert\n0,3\n0,1\n0,3\n0,2\n1,0\n1,1\n0,1\n0,2\n1,0\n1,3\n",
      "-2,0,3,1\n-1,0,2,1\n-1,1,0,3\n0,0,1,2\n0,1,3,2\n",
      "{\"schema\": \"glm52-routing-trace-export/v2\",\n"
      " \"routing\": {\"n_expert_per_layer\": 4, \"k\": 1},\n"
      " \"layers\": {\"3\": {\"executed_topk\": [[3], [1]]}},\n"
      " \"conditional\": {\"prompts\": [{\"category\": \"c\", \"start_row\": 0,\n"
      "  \"prefill_rows\": 1, \"end_row\": 2}]}}"};
}

std::string LayerProblem(const moepack::RouteTrace& trace, const moepack::LayerTrace& layer) {
  if (layer.shape.expert_count == 0) return "a layer without experts";
  if (layer.steps.empty() || layer.steps.size() != layer.ends.size()) return "steps without ends";
  if (layer.ends.back() != layer.expert_ids.size()) return "ids of no step";
  if (!layer.weights.empty() && layer.weights.size() != layer.expert_ids.size())
    return "weights that fit no id";
  for (size_t i = 0; i < layer.steps.size(); ++i) {
    if (layer.steps[i] >= trace.steps.size()) return "a step that is not there";
    if (i > 0 && layer.steps[i] <= layer.steps[i - 1]) return "steps out of order";
    if (layer.Chosen(i).empty()) return "a step without a choice";
  }
  for (const uint16_t id : layer.expert_ids) {
    if (id >= layer.shape.expert_count) return "an expert that is not there";
  }
  return "";
}

std::string ReplayProblem(const moepack::RouteTrace& trace) {
  moepack::ReplayOptions options;
  options.policies = {moepack::CachePolicy::kLru, moepack::CachePolicy::kOracle};
  options.slots = {std::vector<uint32_t>(trace.layers.size(), 2)};
  options.prefill_batch = 3;
  const auto rows = moepack::ReplayTrace(trace, options);
  if (!rows) return "a trace that is not replayed";
  return (*rows)[0].all().hits > (*rows)[1].all().hits ? "more hits than the oracle" : "";
}

std::string Check(std::string_view input) {
  const moepack::MemorySource file(kPath, std::string(input));
  const auto trace = moepack::ReadRouteTrace(file, {});
  if (!trace) return fuzz::ErrorProblem(trace.error(), kPath);
  if (trace->layers.empty()) return "accepted without layers";
  for (const moepack::TraceStep& step : trace->steps) {
    if (step.turn >= trace->turns.size()) return "a turn that is not there";
  }
  for (const moepack::LayerTrace& layer : trace->layers) {
    const std::string problem = LayerProblem(*trace, layer);
    if (!problem.empty()) return moepack::Cat(problem, " in layer ", layer.shape.layer);
  }
  const auto scores = moepack::CheckExpertScores(kPath, moepack::ScoresFromTrace(*trace));
  if (!scores) return scores.error().message;
  return ReplayProblem(*trace);
}

constexpr fuzz::Target kTarget{Check, Seeds, 20'000};

}  // namespace route_trace_target

FUZZ_TARGET(FuzzRouteTrace, route_trace_target::kTarget)
