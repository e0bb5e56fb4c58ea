// Scores from routing traces, whose choices are added up.
#include "libshard/import/importers.h"
#include "libshard/import/route_trace.h"
#include "libshard/import/score_table.h"

namespace moepack {
namespace {

Result<ExpertScores> ReadTraceScores(const ByteSource& file, const ImportOptions& options) {
  TraceOptions trace_options;
  trace_options.layers = options.model;
  SHARD_TRY(const RouteTrace trace, ReadRouteTrace(file, trace_options));
  ExpertScores scores = ScoresFromTrace(trace, options.basis == ScoreBasis::kCount);
  if (!options.basis || *options.basis == scores.basis) return scores;
  if (!trace.weighted()) return WithoutBasis(file.name(), {ScoreBasis::kCount}, *options.basis);
  return WithoutBasis(file.name(), {ScoreBasis::kCount, ScoreBasis::kGateMass}, *options.basis);
}

}  // namespace

constinit const Importer kTraceImporter = {
    "route-trace", "traces of routing, token by token: route_trace v1 and other forms",
    LooksLikeRouteTrace, ReadTraceScores, true};

}  // namespace moepack
