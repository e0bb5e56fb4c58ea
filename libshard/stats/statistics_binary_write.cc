// Writes the compact form. The layout is described in statistics_binary.cc, which reads it.
#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/stats/statistics_file.h"

namespace moepack {
namespace {

class Writer {
 public:
  void Number(uint64_t value) {
    for (; value >= 0x80; value >>= 7) out_ += static_cast<char>(value | 0x80);
    out_ += static_cast<char>(value);
  }
  void Text(const std::string& text) {
    Number(text.size());
    out_ += text;
  }
  template <class T>
  void Float(T value) {
    AppendLe(out_, value);
  }
  std::string Take() { return std::move(out_); }

 private:
  std::string out_;
};

void WriteModel(const ModelIdentity& model, Writer& out) {
  for (const std::string* text :
       {&model.name, &model.architecture, &model.model_version, &model.shard_version,
        &model.replica_version, &model.router_digest}) {
    out.Text(*text);
  }
  out.Number(model.layers.size());
  for (const MoeLayerShape& shape : model.layers) {
    out.Number(shape.layer);
    out.Number(shape.expert_count);
    out.Number(shape.top_k);
  }
}

// Sums are written only for experts that were chosen. Peaks are written for all, because a sink may
// raise the peak of an expert that no counted token chose.
void WritePhase(const PhaseTally& phase, Writer& out) {
  out.Number(phase.tokens);
  out.Number(phase.sinks);
  out.Number(phase.layers.size());
  for (const LayerTally& layer : phase.layers) {
    for (const ExpertTally& expert : layer) {
      out.Number(expert.count);
      out.Float(expert.peak);
      if (expert.count == 0) continue;
      out.Float(expert.gate_mass);
      out.Float(expert.odd_gate_mass);
      out.Float(expert.weighted_norm);
    }
  }
}

// Ids ascend, so each is written as its distance from the smallest possible one.
void WriteTokenCounts(const TokenCounts& token_counts, Writer& out) {
  out.Number(token_counts.size());
  uint64_t least = 0;
  for (const auto& [id, count] : token_counts) {
    out.Number(id - least);
    out.Number(count);
    least = uint64_t{id} + 1;
  }
}

unsigned char HexDigit(char c) {
  return static_cast<unsigned char>(c <= '9' ? c - '0' : c - 'a' + 10);
}

}  // namespace

std::string StatisticsToBinary(const Statistics& statistics) {
  Writer out;
  WriteModel(statistics.model, out);
  out.Number(statistics.sessions.size());
  for (const SessionTally& session : statistics.sessions) {
    for (const std::string* text :
         {&session.name, &session.bucket, &session.executor, &session.precision}) {
      out.Text(*text);
    }
    for (const PhaseTally& phase : session.phases) WritePhase(phase, out);
    WriteTokenCounts(session.token_counts, out);
    out.Text(session.tokens_digest);
  }
  for (const std::vector<uint64_t>& layer : statistics.co_selection) {
    for (const uint64_t count : layer) out.Number(count);
  }
  const std::string payload = out.Take();
  std::string file(kStatisticsMagic);
  AppendLe(file, kStatisticsVersion);
  AppendLe(file, uint64_t{payload.size()});
  const std::string digest = Xxh3Hex(std::as_bytes(std::span(payload)));
  for (size_t i = 0; i < digest.size(); i += 2) {
    file += static_cast<char>(HexDigit(digest[i]) << 4 | HexDigit(digest[i + 1]));
  }
  return file + payload;
}

}  // namespace moepack
