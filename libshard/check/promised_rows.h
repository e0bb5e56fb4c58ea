// Picks the names that checkpoints of a family use for the parts of a layer. A row is a pattern for
// many names; a checkpoint uses one of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/model/family.h"

namespace moepack {

// Patterns with {L} and, for explicit experts, {E}; everything else is spelled out, including the
// leaf.
struct PromisedRows {
  explicit PromisedRows(const Family& family);

  std::string embedding, norm, head;  // "" if the family has none
  std::string router, selection_bias, shared_gate;
  // Each has the projections of one feed-forward part: gate, up and down, or fewer.
  std::vector<std::string> experts, shared, dense;
  bool packed = false;        // experts are packed
  bool bias_row = false;      // the selection bias is a matrix of one row
  bool layer_norms = false;   // norms are called input_layernorm and post_attention_layernorm
  bool appended_mtp = false;  // blocks for multi-token prediction follow the layers
  bool own_mtp = false;       // they are numbered separately, as in "mtp.layers.{M}."
};

// Returns `pattern` with numbers for {L} and {E}.
std::string Spelled(std::string_view pattern, uint32_t layer, uint32_t expert = 0);

}  // namespace moepack
