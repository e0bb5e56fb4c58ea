#include "runtime-shim/stats/statistics.h"

#include <algorithm>

#include "libshard/text.h"

namespace runtime {
namespace {

using shard::Cat;
using shard::Code;
using shard::Error;

void Add(const ExpertTally& from, ExpertTally& to) {
  to.count += from.count;
  to.gate_mass += from.gate_mass;
  to.odd_gate_mass += from.odd_gate_mass;
  to.weighted_norm += from.weighted_norm;
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

void Add(const PhaseTally& from, PhaseTally& to) {
  to.tokens += from.tokens;
  to.sinks += from.sinks;
  Add(from.layers, to.layers);
}

bool SameSession(const SessionTally& a, const SessionTally& b) {
  return a.name == b.name && a.bucket == b.bucket && a.executor == b.executor &&
         a.precision == b.precision;
}

void AddSession(const SessionTally& session, std::vector<SessionTally>& sessions) {
  const auto same = std::find_if(sessions.begin(), sessions.end(), [&](const SessionTally& other) {
    return SameSession(session, other);
  });
  if (same == sessions.end()) {
    sessions.push_back(session);
    return;
  }
  for (size_t phase = 0; phase < session.phases.size(); ++phase) {
    Add(session.phases[phase], same->phases[phase]);
  }
}

}  // namespace

Statistics EmptyStatistics(const ModelIdentity& model) {
  Statistics statistics;
  statistics.model = model;
  for (const MoeLayerShape& layer : model.layers) {
    statistics.co_selection.emplace_back(PairCount(layer.experts));
  }
  return statistics;
}

shard::Status MergeStatistics(const std::string& where, const Statistics& other, Statistics& into) {
  const auto different = [&](const char* what, const std::string& expected,
                             const std::string& found) {
    return Error{Code::kMismatch,
                 Cat(where, ": ", what, ": expected ", expected, ", found ", found),
                 "only statistics of one model can be merged"};
  };
  if (other.model.layers != into.model.layers)
    return different("MoE layers", "those of the other statistics", "other layers or experts");
  if (other.model.router_digest != into.model.router_digest)
    return different("router digest", shard::Quoted(into.model.router_digest),
                     shard::Quoted(other.model.router_digest));
  for (const SessionTally& session : other.sessions) AddSession(session, into.sessions);
  for (size_t layer = 0; layer < other.co_selection.size(); ++layer) {
    for (size_t pair = 0; pair < other.co_selection[layer].size(); ++pair) {
      into.co_selection[layer][pair] += other.co_selection[layer][pair];
    }
  }
  return shard::Ok();
}

TotalTally AddUp(const Statistics& statistics, const std::string* bucket) {
  TotalTally total;
  for (const MoeLayerShape& layer : statistics.model.layers) {
    total.layers.emplace_back(layer.experts);
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

}  // namespace runtime
