// Qwen3-Next-80B-A3B and Qwen3-Coder-Next: three of four layers have linear_attn instead of
// self_attn; the MTP block "mtp.layers.0" has its own MoE. Names: transformers (Qwen3Next),
// llama.cpp.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family Qwen3NextFamily() {
  Family family;
  family.name = "qwen3-next";
  family.architectures = {"Qwen3NextForCausalLM"};
  family.model_types = {"qwen3_next"};
  family.prefixes = UsualPrefixes();
  family.routing = {.gating = Gating::kSoftmax, .normalize = true};
  family.facts = {.gated_queries = true};
  AddModel(family);
  AddQwenMtp(family);
  for (const char* at : {"layers.{L}.", "mtp.layers.{M}."}) {
    AddAttention(family, at);
    AddQwenMoe(family, at);
  }
  AddTrunk(family, "attention", {"layers.{L}.linear_attn.{**}"});
  family.promise = {.complete = true, .joined_linear = true, .query_key_norms = {{}, true}};
  return family;
}

}  // namespace moepack
