#include "libshard/import/route_trace.h"

#include <algorithm>
#include <array>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/text/text.h"
#include "libshard/import/import.h"
#include "libshard/import/trace_builder.h"

namespace moepack {
namespace {

enum class TraceForm : uint8_t { kNone, kTable, kRuns, kExport, kGzip };

constexpr size_t kTraceHead = 4096;

// At least two columns of digits, the first of which may be negative.
bool IsRunRow(std::string_view line) {
  if (line.starts_with('-')) line.remove_prefix(1);
  const size_t comma = line.find(',');
  if (comma == 0 || comma == std::string_view::npos || comma + 1 == line.size()) return false;
  return line.find_first_not_of("0123456789,") == std::string_view::npos;
}

TraceForm FormOf(std::string_view head) {
  if (head.starts_with("\x1f\x8b")) return TraceForm::kGzip;
  if (head.starts_with("# route_trace v")) return TraceForm::kTable;
  if (head.starts_with('{') && head.find("\"glm52-routing-trace-export/") != head.npos)
    return TraceForm::kExport;
  std::string_view line = head.substr(0, head.find('\n'));
  if (line.ends_with('\r')) line.remove_suffix(1);
  if (line == "layer,expert" || IsRunRow(line)) return TraceForm::kRuns;
  return line.starts_with("turn,") ? TraceForm::kTable : TraceForm::kNone;
}

// The pairs of experts that a token chose, and their scores, unless the token is the first of its
// turn.
void AddTraceScores(const RouteTrace& trace, size_t index, ExpertScores& scores) {
  const LayerTrace& layer = trace.layers[index];
  const size_t offset = scores.Offset(index);
  std::vector<uint64_t>& pairs = scores.co_selection[index];
  for (size_t i = 0; i < layer.steps.size(); ++i) {
    const TraceStep& step = trace.steps[layer.steps[i]];
    if (step.position == 0) continue;
    const auto chosen = layer.Chosen(i);
    std::vector<float>& session = scores.sessions[step.turn].scores;
    for (size_t a = 0; a < chosen.size(); ++a) {
      session[offset + chosen[a]] +=
          scores.basis == ScoreBasis::kCount ? 1.0f : layer.weights[layer.begin(i) + a];
      for (size_t b = a + 1; b < chosen.size(); ++b) {
        const auto [low, high] = std::minmax(chosen[a], chosen[b]);
        ++pairs[PairIndex(low, high, layer.shape.expert_count)];
      }
    }
  }
}

}  // namespace

bool RouteTrace::weighted() const {
  return std::none_of(layers.begin(), layers.end(),
                      [](const LayerTrace& layer) { return layer.weights.empty(); });
}

bool LooksLikeRouteTrace(std::string_view head) {
  const TraceForm form = FormOf(head.substr(0, kTraceHead));
  return form != TraceForm::kNone && form != TraceForm::kGzip;
}

Result<RouteTrace> ReadRouteTrace(const ByteSource& file, const TraceOptions& options) {
  SHARD_TRY(const std::string head, TextHead(file, kTraceHead));
  switch (FormOf(head)) {
    case TraceForm::kTable:
      return ReadTraceTable(file, options);
    case TraceForm::kRuns:
      return ReadTraceRuns(file, options);
    case TraceForm::kExport:
      return ReadTraceExport(file, options);
    case TraceForm::kGzip:
      return Error{
          Code::kUnsupported, Cat(file.name(), ": expected a trace, found gzip"),
          Cat("run gunzip --keep ", ShellWord(PathArgument(file.name())), " and name its output")};
    case TraceForm::kNone:
      break;
  }
  for (const Importer* importer : Importers()) {
    if (!importer->looks_like(head)) continue;
    return Error{Code::kUnsupported,
                 Cat(file.name(), ": expected a trace of routing, found ", importer->name),
                 "it has no order: record a trace with `moepack profile --trace`; `moepack plan "
                 "--statistics` takes the counts of other tools"};
  }
  return Error{Code::kCorrupt,
               Cat(file.name(), ": expected a trace of routing, found ",
                   head.empty() ? "nothing" : Quoted(std::string_view(head).substr(0, 40))),
               "docs/replay.md lists the formats"};
}

Result<RouteTrace> ReadRouteTrace(const std::string& path, const TraceOptions& options) {
  SHARD_TRY(const Source source, LocalSource(path));
  if (source.file.empty())
    return Error{Code::kInvalidArgument, Cat(path, ": expected a trace, found a directory")};
  SHARD_TRY(const ByteSourcePtr file, source.tree->Open(source.file));
  return ReadRouteTrace(*file, options);
}

ExpertScores ScoresFromTrace(const RouteTrace& trace, bool counts) {
  ExpertScores scores;
  scores.format = trace.format;
  scores.digest = trace.digest;
  scores.basis = trace.weighted() && !counts ? ScoreBasis::kGateMass : ScoreBasis::kCount;
  scores.warnings = trace.warnings;
  for (const LayerTrace& layer : trace.layers) {
    scores.layers.push_back(layer.shape);
    scores.co_selection.emplace_back(PairCount(layer.shape.expert_count));
  }
  const size_t width = scores.Offset(scores.layers.size());
  for (size_t i = 0; i < trace.turns.size(); ++i) {
    SessionScores session;
    session.name = trace.turns[i].name.empty() ? Cat("turn ", i) : trace.turns[i].name;
    session.bucket = trace.turns[i].bucket;
    session.scores.resize(width);
    scores.sessions.push_back(std::move(session));
  }
  for (const TraceStep& step : trace.steps) {
    if (step.position > 0) ++scores.sessions[step.turn].tokens;
  }
  for (size_t i = 0; i < trace.layers.size(); ++i) AddTraceScores(trace, i, scores);
  return scores;
}

}  // namespace moepack
