// A checkpoint of Qwen3-Next or Qwen3.5: a layer of linear attention, one of full attention, and a
// block for multi-token prediction.
#pragma once

#include <string>

#include "tests/libshard/convert/sample.h"

namespace moepack {

// Hidden size 4; linear attention with 2 key heads and 4 value heads of 2 values; full attention
// with 2 query heads and 1 key head of 4 values; 2 experts and a shared one of width 2. Tensors of
// linear_attn that differ between the families are left to the caller.
class QwenHybridSample : public ConvertSample {
 public:
  explicit QwenHybridSample(const char* architecture, const char* model_type)
      : ConvertSample(ConvertSample::Qwen3Moe()) {
    config.update({{"architectures", {architecture}},
                   {"model_type", model_type},
                   {"num_hidden_layers", 2},
                   {"head_dim", 4},
                   {"full_attention_interval", 2},
                   {"linear_num_key_heads", 2},
                   {"linear_num_value_heads", 4},
                   {"linear_key_head_dim", 2},
                   {"linear_value_head_dim", 2},
                   {"linear_conv_kernel_dim", 3},
                   {"shared_expert_intermediate_size", 2},
                   {"mtp_num_hidden_layers", 1}});
    Remove("model.layers.");
    AddFeedForward("model.layers.0.");
    const std::string linear = "model.layers.0.linear_attn.";
    Add(linear + "conv1d.weight", {16, 1, 3});
    Add(linear + "A_log", {4});
    Add(linear + "dt_bias", {4});
    Add(linear + "norm.weight", {2});
    Add(linear + "out_proj.weight", {4, 8});
    for (const char* at : {"model.layers.1.", "mtp.layers.0."}) {
      AddFeedForward(at);
      AddFullAttention(at);
    }
    Add("mtp.fc.weight", {4, 8});
    for (const char* norm : {"norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden"}) {
      Add(std::string("mtp.") + norm + ".weight", {4});
    }
  }

  void AddFullAttention(const std::string& at) {
    Add(at + "self_attn.q_proj.weight", {16, 4});
    Add(at + "self_attn.k_proj.weight", {4, 4});
    Add(at + "self_attn.v_proj.weight", {4, 4});
    Add(at + "self_attn.o_proj.weight", {4, 8});
    Add(at + "self_attn.q_norm.weight", {4});
    Add(at + "self_attn.k_norm.weight", {4});
  }

 private:
  void AddFeedForward(const std::string& at) {
    Add(at + "input_layernorm.weight", {4});
    Add(at + "post_attention_layernorm.weight", {4});
    Add(at + "mlp.gate.weight", {2, 4});
    Add(at + "mlp.experts.gate_up_proj", {2, 4, 4});
    Add(at + "mlp.experts.down_proj", {2, 4, 2});
    Add(at + "mlp.shared_expert.gate_proj.weight", {2, 4});
    Add(at + "mlp.shared_expert.up_proj.weight", {2, 4});
    Add(at + "mlp.shared_expert.down_proj.weight", {4, 2});
    Add(at + "mlp.shared_expert_gate.weight", {1, 4});
  }
};

}  // namespace moepack
