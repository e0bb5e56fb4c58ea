#include "libshard/import/route_trace.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/import/import.h"
#include "libshard/import/score_table.h"
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
               "docs/statistics.md lists the formats"};
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

// Scores from routing traces, whose choices are added up.

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

namespace {

constexpr size_t kTraceBuffer = 1u << 20;

template <class T>
void AppendTraceNumber(T number, std::string& out) {
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
  out.append(digits.data(), end);
}

// Comment lines are split at spaces and line ends, so none may be in a word.
std::string TraceWord(std::string_view text) {
  std::string word = Shown(text);
  std::replace(word.begin(), word.end(), ' ', '_');
  return word;
}

std::string HeaderText(const TraceHeader& header) {
  uint32_t expert_count = 0, top_k = 0;
  for (const MoeLayerShape& layer : header.layers) {
    expert_count = std::max(expert_count, layer.expert_count);
    top_k = std::max(top_k, layer.top_k);
  }
  std::string text = Cat("# route_trace v1\n# model=", TraceWord(header.model),
                         " arch=", TraceWord(header.architecture), " n_layer=", header.layer_count,
                         " n_expert=", expert_count, " n_expert_used=", top_k, "\n");
  for (size_t i = 0; i < header.layers.size(); ++i) {
    text += Cat("# layer=", header.layers[i].layer,
                " expert_bytes=", header.expert_bytes.empty() ? 0 : header.expert_bytes[i],
                " dense_bytes=0 experts=", header.layers[i].expert_count, "\n");
  }
  for (size_t i = 0; i < header.turns.size(); ++i) {
    const Json turn = {{"session", header.turns[i].name}, {"bucket", header.turns[i].bucket}};
    text += Cat("# turn=", i, " ", turn.dump(), "\n");
  }
  return text + "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n";
}

}  // namespace

Result<TraceWriter> TraceWriter::Create(const std::string& path, const TraceHeader& header,
                                        bool replace) {
  for (const TraceTurn& turn : header.turns) {
    if (IsUtf8(turn.name) && IsUtf8(turn.bucket)) continue;
    return Error{Code::kInvalidArgument,
                 Cat(path, ": session ", Quoted(turn.name), ": expected UTF-8, found other bytes")};
  }
  SHARD_TRY(AtomicFile file, AtomicFile::Create(path, replace));
  TraceWriter writer(std::move(file));
  if (path.ends_with(kZstdSuffix)) writer.zstd_.emplace();
  writer.text_ = HeaderText(header);
  return writer;
}

// Nothing was read from disk for it, so every expert counts as resident.
void TraceWriter::Add(const TraceStep& step, uint32_t layer, std::span<const uint32_t> expert_ids,
                      std::span<const float> weights) {
  std::string start;
  for (const uint32_t number :
       {step.turn, static_cast<uint32_t>(step.phase), step.position, layer}) {
    AppendTraceNumber(number, start);
    start += ',';
  }
  for (size_t slot = 0; slot < expert_ids.size(); ++slot) {
    text_ += start;
    AppendTraceNumber(slot, text_);
    text_ += ',';
    AppendTraceNumber(expert_ids[slot], text_);
    text_ += ',';
    AppendTraceNumber(weights[slot], text_);
    text_ += ",1,0\n";
  }
  choices_ += expert_ids.size();
  if (text_.size() >= kTraceBuffer) Write();
}

void TraceWriter::Write() {
  if (status_.has_value()) status_ = file_.Write(zstd_ ? zstd_->Frame(text_) : text_);
  text_.clear();
}

Status TraceWriter::Finish() {
  Write();
  SHARD_CHECK(status_);
  return file_.Commit();
}

}  // namespace moepack
