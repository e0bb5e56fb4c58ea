// Determines which blocks of a GGUF model run. Blocks for multi-token prediction, which follow the
// layers, do not.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/plan/plan.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Returns N of "blk.N.*"; no value for tensors outside blocks.
std::optional<uint32_t> BlockOf(std::string_view tensor);

class RunningBlocks {
 public:
  // Counts the layers, which are block_count - nextn_predict_layers. kCorrupt if the keys make no
  // sense.
  static Result<RunningBlocks> Of(const std::string& path, const GgufMetadata& metadata);

  // Tensors outside blocks run: no value is less than any number.
  bool Runs(std::string_view tensor) const { return BlockOf(tensor) < layers_; }
  bool RunsLayer(uint64_t layer) const { return layer < layers_; }
  // Returns a plan without the layers that do not run.
  Plan Trim(Plan plan) const;
  // Adds what was left out to Weights::notes.
  void AddNote(Weights& weights) const;

 private:
  uint32_t layers_ = 0;
  uint32_t left_out_ = 0;
};

// True if the tensor belongs to a set of experts, not to the trunk.
inline bool IsExpert(const GgufTensor& tensor) {
  return tensor.part == moepack::Part::kExpert && tensor.expert_count > 0;
}
// Counts a router's rows, if `name` is a router's weight.
void AddRouter(std::string_view name, const std::vector<uint64_t>& shape, Weights& weights);

}  // namespace moepack::runtime
