// Writes a trace as route_trace v1 while a model runs, however long it becomes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/files/file.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/result.h"
#include "libshard/import/route_trace.h"

namespace moepack {

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
