// What holds for all models of a family, and no row of its table says.
#pragma once

#include <string>
#include <vector>

#include "libshard/model/layer_fields.h"

namespace moepack {

// Facts that hold for all models of the family and that config.json does not state. A check relies
// on a fact only where it is set (libshard/check).
struct ConfigFacts {
  bool all_moe = false;        // every decoder layer has experts
  bool square_heads = false;   // heads are hidden size / heads wide unless head_dim says otherwise
  bool plain_width = false;    // experts are intermediate_size wide
  bool gated_queries = false;  // q_proj holds a gate beside each query
  bool transposed = false;     // packed experts without a leaf are [experts, in, out]
  bool interleaved = false;    // fused gate_up has the rows of gate and up in turn
  bool shared_of_experts = false;  // a shared expert is as wide as so many routed ones
};

// Whether a family has something: always, never, or depending on a field of the config.
struct ConfigSwitch {
  ConfigKeys keys = {};    // empty when `otherwise` always holds; a list of layer_fields.h
  bool otherwise = false;  // when the field is absent
};

// Facts about tensors that the rows do not tell. The list of tensors that a config alone promises
// needs them (libshard/check/promised_tensors.cc).
struct PromiseFacts {
  bool complete = false;       // such a list has all tensors; otherwise some may be missing
  bool packed = false;         // experts are stored packed, although there are rows for single ones
  bool f32_router = false;     // the router is F32, whatever the config's dtype
  bool norm_biases = false;    // norms have a bias
  bool expert_biases = false;  // router and experts have one
  bool always_shared = false;  // every MoE layer has a shared expert, as wide as a routed one
  bool indexer = false;        // attention picks its keys by an indexer
  std::vector<std::string> indexed = {};  // architectures of the family that do so
  bool joined_linear = false;             // linear attention's four input projections are two
  ConfigSwitch attention_biases = {fields::kAttentionBias};
  bool output_bias = true;  // where there are biases, the output projection has one, too
  ConfigSwitch query_key_norms = {};
  bool whole_norms = false;  // over all heads at once
  bool layer_norms = false;  // they are called query_layernorm and key_layernorm
  bool attention_sinks = false;
};

}  // namespace moepack
