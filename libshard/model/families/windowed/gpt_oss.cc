// gpt-oss: packed MXFP4 experts, gate_up_proj_{blocks,scales,bias} with gate and up rows
// interleaved, and a router with a bias; softmax over the chosen experts only. MLX splits them
// (experts.gate_proj). Names: the index of gpt-oss-20b.
#include "libshard/model/families/families.h"
#include "libshard/model/families/rows.h"

namespace moepack {

Family GptOssFamily() {
  Family family;
  family.name = "gpt-oss";
  family.architectures = {"GptOssForCausalLM"};
  family.model_types = {"gpt_oss"};
  family.prefixes = UsualPrefixes();
  family.routing = {
      .gating = Gating::kSoftmaxAfterTopK, .normalize = false, .bias = RouterBias::kLogits};
  family.facts = {.all_moe = true, .plain_width = true, .transposed = true, .interleaved = true};
  AddModel(family);
  AddAttention(family, "layers.{L}.");
  AddRouter(family, "layers.{L}.mlp.router");
  AddExperts(family, "layers.{L}.mlp.");
  family.cards = CardConvention::kWithoutEmbedding;
  family.promise = {.complete = true,
                    .expert_biases = true,
                    .attention_biases = {fields::kAttentionBias, true},
                    .attention_sinks = true};
  return family;
}

}  // namespace moepack
