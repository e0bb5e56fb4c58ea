// Maps a checkpoint's tensors to GGUF tensors. A family is a table of rows, which also say how the
// numbers change: by an order of rows or a rule for values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/convert/row_order.h"
#include "libshard/model/model.h"
#include "libshard/model/weight_config.h"

namespace moepack {

// Some blocks: those that are listed, or all others.
struct BlockChoice {
  std::vector<uint32_t> numbers = {};
  bool listed = false;
  bool Has(uint32_t block) const {
    return (std::find(numbers.begin(), numbers.end(), block) != numbers.end()) == listed;
  }
};

// One row of a family's table. `source` is the name without the family's prefix, `target` the GGUF
// name; a row without a target leaves its source out. {L} and {E} stand for the numbers of layer
// and expert; {N} in a source for any other number: these tensors are stacked in its order, from 0
// on. {W} at the end stands for "weight", which is required, and "bias", which is optional. A
// source may have several rows, and a target several sources (older and newer layouts, of which a
// checkpoint has one).
struct TensorRow {
  std::string source, target;  // no target: the source is left out
  RowOrder order = RowOrder::kAsIs;
  bool optional = false;  // the checkpoint may lack it
  ValueRule rule = ValueRule::kNone;
  // Only in blocks for multi-token prediction; a source without {L} belongs to the first of them.
  bool mtp = false;
  // The part of the model in the GGUF, if it differs from that of the source: a router's per-expert
  // scales belong to the experts there.
  std::optional<Part> part = {};
  BlockChoice blocks = {};  // the blocks that have it
  bool f32 = false;         // F32 under every recipe, although it is a matrix
  bool key = false;         // becomes a key (HfFamily::tensor_keys) and no tensor
  // The target consists of the rows of several sources, of which this is number `piece`.
  std::optional<uint32_t> piece = {};
};

struct TensorMapOptions {
  std::vector<TensorRow> rows;
  uint32_t layers = 0;  // of the decoder
  HeadShape shape;
  WeightConfig weights;  // how the checkpoint's weights are quantized
  // Blocks for multi-token prediction that the GGUF has after the decoder layers; tensors of
  // further ones, and all of them when it is 0, are left out.
  uint32_t mtp_layers = 0;
  // The head is the embedding, so there is no tensor output.weight. With needs_output a copy is
  // made.
  bool tied = false;
  // Matrices keep their types, routers included: FP8 becomes Q8_0 unless a recipe says otherwise.
  bool own_types = false;
  bool needs_output = false;  // the runtime does not load the architecture without output.weight
};

// True for tensors that llama.cpp always stores as F32: vectors, norms, routers, convolutions,
// biases, and all whose name does not end in ".weight" (prepare_tensors of convert_hf_to_gguf.py).
bool IsForcedF32(std::string_view name, size_t dimensions);

// Returns the tensors in order of layer and table row, with experts stacked by ascending id. A
// row's source "x.weight" also stands for the tensors that x is stored as when it is quantized
// (weight.h). Towers of other modalities and tables of rotary frequencies are left out.
// kUnsupported, naming the tensor, if no row maps it or its numbers have an unsupported format;
// kCorrupt for one that is missing or whose shape does not fit. Reads no tensor data but the shapes
// of packed integers.
Result<std::vector<GgufTensor>> MapTensors(const MoeModel& model, const TensorMapOptions& options);

}  // namespace moepack
