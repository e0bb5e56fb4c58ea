#include "libshard/stats/statistics.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

void Add(const ExpertTally& from, ExpertTally& to) {
  to.count += from.count;
  to.gate_mass += from.gate_mass;
  to.odd_gate_mass += from.odd_gate_mass;
  to.weighted_norm += from.weighted_norm;
  // A peak is a largest magnitude, not a sum.
  to.peak = std::max(to.peak, from.peak);
}

void Add(const std::vector<LayerTally>& from, std::vector<LayerTally>& to) {
  if (to.empty()) {
    to = from;
    return;
  }
  for (size_t layer = 0; layer < from.size(); ++layer) {
    for (size_t expert = 0; expert < from[layer].size(); ++expert) {
      Add(from[layer][expert], to[layer][expert]);
    }
  }
}

// Adds to `sum`; false if it exceeds the limit for tokens.
bool AddTokens(uint64_t tokens, uint64_t& sum) {
  return !__builtin_add_overflow(sum, tokens, &sum) && sum <= kMaxStatisticsTokens;
}

Status CheckNames(const std::string& where, const Statistics& other, const Statistics& into) {
  std::set<std::string_view> names;
  for (const SessionTally& session : into.sessions) names.insert(session.name);
  for (const SessionTally& session : other.sessions) {
    if (!names.contains(session.name)) continue;
    return Error{
        Code::kInvalidArgument,
        Cat(where, ": session ", Quoted(session.name),
            ": expected one that is not there yet, found it a second time"),
        "its tokens would count twice; name sessions apart with \"session\" in a .jsonl file"};
  }
  return Ok();
}

}  // namespace

Statistics EmptyStatistics(const ModelIdentity& model) {
  Statistics statistics;
  statistics.model = model;
  for (const MoeLayerShape& layer : model.layers) {
    statistics.co_selection.emplace_back(PairCount(layer.expert_count));
  }
  return statistics;
}

Status MergeStatistics(const std::string& where, const Statistics& other, Statistics& into) {
  const auto different = [&](const char* what, const std::string& expected,
                             const std::string& found) {
    return Error{Code::kMismatch,
                 Cat(where, ": ", what, ": expected ", expected, ", found ", found),
                 "only statistics of one model can be merged"};
  };
  if (other.model.layers != into.model.layers)
    return different("MoE layers", "those of the other statistics", "other layers or experts");
  if (other.model.router_digest != into.model.router_digest)
    return different("router digest", Quoted(into.model.router_digest),
                     Quoted(other.model.router_digest));
  SHARD_CHECK(CheckNames(where, other, into));
  const std::optional<uint64_t> present = CountTokens(into.sessions);
  std::optional<uint64_t> sum = CountTokens(other.sessions);
  if (!present || !sum || !AddTokens(*present, *sum))
    return Error{Code::kCorrupt, Cat(where, ": tokens: expected at most ", kMaxStatisticsTokens,
                                     " with those of the other statistics, found more")};
  // All checks are done by now, so a merge that fails leaves `into` as it was.
  into.sessions.insert(into.sessions.end(), other.sessions.begin(), other.sessions.end());
  for (size_t layer = 0; layer < other.co_selection.size(); ++layer) {
    for (size_t pair = 0; pair < other.co_selection[layer].size(); ++pair) {
      into.co_selection[layer][pair] += other.co_selection[layer][pair];
    }
  }
  return Ok();
}

std::optional<uint64_t> CountTokens(const std::vector<SessionTally>& sessions) {
  uint64_t sum = 0;
  for (const SessionTally& session : sessions) {
    for (const PhaseTally& phase : session.phases) {
      if (!AddTokens(phase.tokens, sum) || !AddTokens(phase.sinks, sum)) return std::nullopt;
    }
  }
  return sum;
}

TotalTally AddUp(const Statistics& statistics, const std::string* bucket) {
  TotalTally total;
  for (const MoeLayerShape& layer : statistics.model.layers) {
    total.layers.emplace_back(layer.expert_count);
  }
  for (const SessionTally& session : statistics.sessions) {
    if (bucket && session.bucket != *bucket) continue;
    for (const PhaseTally& phase : session.phases) {
      total.tokens += phase.tokens;
      Add(phase.layers, total.layers);
    }
  }
  return total;
}

}  // namespace moepack
