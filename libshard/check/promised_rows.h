// The names that a family's rows give to the parts of a layer. A row is a pattern for many names,
// and a checkpoint uses one of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "libshard/model/family.h"

namespace moepack {

// Patterns with {L} and, for explicit experts, {E}, spelled out to the leaf.
struct PromisedRows {
  explicit PromisedRows(const Family& family);

  std::string embedding, norm, head;  // "" where the family has none
  std::string router, selection_bias, shared_gate;
  // Each has the projections of one feed-forward part: gate, up and down, or fewer.
  std::vector<std::string> experts, shared, dense;
  bool packed = false;        // the experts are
  bool layer_norms = false;   // called input_layernorm and post_attention_layernorm
  bool appended_mtp = false;  // blocks for multi-token prediction follow the layers
  bool own_mtp = false;       // they are numbered on their own, as "mtp.layers.{M}."
};

// `pattern` with numbers for {L} and {E}.
std::string Spelled(std::string_view pattern, uint32_t layer, uint32_t expert = 0);

}  // namespace moepack
