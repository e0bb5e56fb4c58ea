#include "libshard/import/trace_write.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack {
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
