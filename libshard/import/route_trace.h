// What the routers of a model chose, token by token. Unlike statistics, a trace keeps the order, so
// that it can be used to simulate caches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/result.h"
#include "libshard/stats/expert_scores.h"
#include "libshard/stats/statistics.h"

namespace moepack {

// One text and what was generated after it: a session of `profile`, a turn of a chat.
struct TraceTurn {
  std::string name, bucket;  // may be empty
  bool operator==(const TraceTurn&) const = default;
};

// One token on its way through the layers.
struct TraceStep {
  uint32_t turn = 0;  // index into RouteTrace::turns
  Phase phase = Phase::kPrefill;
  uint32_t position = 0;  // as in the file; it ascends within (turn, phase)
  bool operator==(const TraceStep&) const = default;
};

// The choices of one layer. A layer may lack steps: runtimes run the last layer only for tokens
// whose logits were requested.
struct LayerTrace {
  MoeLayerShape shape;                   // top_k: the most experts that a step chose
  std::optional<uint64_t> expert_bytes;  // of one expert, if the file says so
  std::vector<uint32_t> steps;           // indices into RouteTrace::steps, ascending
  std::vector<uint64_t> ends;            // for each of them, where its ids end in expert_ids
  std::vector<uint16_t> expert_ids;      // best first; no id twice in a step
  std::vector<float> weights;            // the applied gates, like expert_ids; empty if unknown

  uint64_t begin(size_t index) const { return index == 0 ? 0 : ends[index - 1]; }
  std::span<const uint16_t> Chosen(size_t index) const {
    return std::span(expert_ids).subspan(begin(index), ends[index] - begin(index));
  }
  bool operator==(const LayerTrace&) const = default;
};

// The only format that does not say how many experts a token chose.
inline constexpr std::string_view kLayerExpertFormat = "layer,expert";

struct RouteTrace {
  std::string format;  // "route_trace v1", "layer,expert", "glm52-routing-trace-export/v2", ...
  std::string digest;  // XXH3-128 of the text, 32 hexadecimal digits
  std::string model;   // as the file names it; may be empty
  std::vector<TraceTurn> turns;
  std::vector<TraceStep> steps;    // by turn, prefill before decode, by position
  std::vector<LayerTrace> layers;  // ascending by layer; at least one
  std::vector<std::string> warnings;

  bool weighted() const;  // the gates of all choices are known
};

struct TraceOptions {
  // The layers of the model, ascending, if it is known. Other layers, and ids beyond its experts,
  // are refused; some formats do not say how many experts there are.
  std::vector<MoeLayerShape> layers;
  // For kLayerExpertFormat; others ignore it. Without it, and without `layers`, it is inferred.
  std::optional<uint32_t> top_k;
};

// True for a text that starts like a trace. `head` is its start, or all of it.
bool LooksLikeRouteTrace(std::string_view head);

// Reads a trace in any of these forms, as it is or in zstd; refuses gzip with a hint:
//   route_trace v1          BigMoeOnEdge's CSV, which `profile --trace` writes too; several files
//                           may follow each other
//   layer,expert            one row per chosen expert (llama.cpp PR 28544)
//   pos,layer,id,id,...     one row per token and layer; prompts have negative positions
//   glm52-routing-trace-export/v2    JSON
// The file may be hostile. kCorrupt names file and line: wrong numbers, ids beyond the experts, an
// id twice in a step, steps out of order, no rows at all. kMismatch if it is not a trace of
// TraceOptions::layers, kUnsupported for another version.
Result<RouteTrace> ReadRouteTrace(const ByteSource& file, const TraceOptions& options);
// The same for a path on this machine.
Result<RouteTrace> ReadRouteTrace(const std::string& path, const TraceOptions& options);

// Adds up the choices: as counts if these are requested or the trace has no gates, otherwise as
// gates. Turns become sessions. The first position of a turn is an attention sink, so it does not
// count.
ExpertScores ScoresFromTrace(const RouteTrace& trace, bool counts = false);

// Writes a trace as route_trace v1 while a model runs, however long it becomes.

struct TraceHeader {
  std::string model, architecture;  // as named in the metadata
  uint32_t layer_count = 0;         // blocks with and without experts
  std::vector<MoeLayerShape> layers;
  std::vector<uint64_t> expert_bytes;  // of one expert, like `layers`; empty if unknown
  std::vector<TraceTurn> turns;
};

class TraceWriter {
 public:
  // The file gets its name in Finish; until then it is an AtomicFile, to which `replace` goes. A
  // name that ends in .zst gets frames.
  // kInvalidArgument for names that are not UTF-8.
  static Result<TraceWriter> Create(const std::string& path, const TraceHeader& header,
                                    bool replace = true);

  // Adds what one layer chose for one token, best first. The first error is kept for Finish.
  void Add(const TraceStep& step, uint32_t layer, std::span<const uint32_t> expert_ids,
           std::span<const float> weights);
  Status Finish();
  uint64_t choices() const { return choices_; }

 private:
  explicit TraceWriter(AtomicFile file) : file_(std::move(file)) {}
  void Write();

  AtomicFile file_;
  std::optional<ZstdWriter> zstd_;
  std::string text_;  // not written yet
  Status status_ = Ok();
  uint64_t choices_ = 0;
};

}  // namespace moepack
