#include "libshard/model/config_defaults.h"

#include <algorithm>

namespace moepack {
namespace {

struct DefaultsRow {
  std::string_view family;
  std::string_view json;
  std::string_view model_type = {};  // only models whose type, or text model's type, starts so
};

// Kimi's checkpoints include a copy of DeepSeek's config class.
constexpr std::string_view kKimi =
    R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "n_shared_experts": 1})";

// transformers' Qwen3NextConfig and Qwen3_5MoeTextConfig.
constexpr std::string_view kQwenHybrid =
    R"({"head_dim": 256, "rms_norm_eps": 1e-6, "rope_theta": 10000,
        "partial_rotary_factor": 0.25, "full_attention_interval": 4,
        "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
        "linear_num_key_heads": 16, "linear_num_value_heads": 32, "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512})";

// Each row names its source. The first row that fits counts.
constexpr DefaultsRow kDefaultsRows[] = {
    // configuration_bailing_moe.py of Ling-lite
    {"bailing-moe", R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "first_k_dense_replace": 0})"},
    // configuration_bailing_moe_v2.py of Ling-mini-2.0
    {"bailing-moe-v2", R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "first_k_dense_replace": 0,
        "num_shared_experts": 1, "partial_rotary_factor": 0.5})"},
    // transformers' DeepseekV2Config. Its q_lora_rank (1536) is omitted because V2-Lite sets null.
    {"deepseek-v2", R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "n_shared_experts": 2})"},
    {"deepseek-v3", kKimi, "kimi"},
    // transformers' DeepseekV3Config
    {"deepseek-v3", R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "n_shared_experts": 1,
        "first_k_dense_replace": 3})"},
    // transformers' Dots1Config
    {"dots1", R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "moe_intermediate_size": 1408})"},
    // transformers' Ernie4_5_MoeConfig
    {"ernie4.5-moe",
     R"({"rope_theta": 500000, "rms_norm_eps": 1e-5, "moe_intermediate_size": 1536,
        "moe_layer_start_index": 1, "moe_layer_interval": 1})"},
    // transformers' Gemma4TextConfig. Its defaults for per-layer embeddings are left out: the
    // models with experts have none, and such tensors are refused.
    {"gemma4-moe",
     R"({"rms_norm_eps": 1e-6, "head_dim": 256, "global_head_dim": 512, "num_kv_shared_layers": 0,
        "hidden_size_per_layer_input": 0, "tie_word_embeddings": true,
        "hidden_activation": "gelu_pytorch_tanh"})"},
    // transformers' Glm4MoeConfig
    {"glm4-moe", R"({"rope_theta": 10000, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-5,
        "first_k_dense_replace": 1, "n_shared_experts": 1})"},
    // transformers' Glm4MoeLiteConfig, whose mlp_layer_types begin with one "dense"
    {"glm4-moe-lite", R"({"rope_theta": 10000, "rms_norm_eps": 1e-5, "n_shared_experts": 1,
        "first_k_dense_replace": 1})"},
    // transformers' GlmMoeDsaConfig
    {"glm5", R"({"rope_theta": 1000000, "rms_norm_eps": 1e-5, "n_shared_experts": 1,
        "first_k_dense_replace": 3})"},
    // transformers' GptOssConfig
    {"gpt-oss",
     R"({"head_dim": 64, "sliding_window": 128, "rms_norm_eps": 1e-5, "rope_theta": 150000,
        "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                         "original_max_position_embeddings": 4096}})"},
    // transformers' GraniteMoeConfig
    {"granite-moe", R"({"rms_norm_eps": 1e-6, "rope_theta": 10000, "embedding_multiplier": 1,
        "logits_scaling": 1, "residual_multiplier": 1, "attention_multiplier": 1})"},
    // transformers' HunYuanMoEV1Config
    {"hunyuan-moe", R"({"rope_theta": 10000, "rms_norm_eps": 1e-5})"},
    {"kimi-k2.5", kKimi},
    // transformers' Llama4TextConfig
    {"llama4", R"({"rope_theta": 500000, "head_dim": 128, "rms_norm_eps": 1e-5,
        "interleave_moe_layer_step": 1, "use_qk_norm": true})"},
    // configuration_mimo_v2_flash.py of MiMo-V2-Flash
    {"mimo-v2", R"({"rope_theta": 5000000, "swa_rope_theta": 10000, "layernorm_epsilon": 1e-5})"},
    // transformers' MiniMaxM2Config
    {"minimax-m2", R"({"rope_theta": 5000000, "rms_norm_eps": 1e-6, "head_dim": 128})"},
    // transformers' MixtralConfig
    {"mixtral", R"({"num_key_value_heads": 8, "num_experts_per_tok": 2})"},
    // configuration_nemotron_h.py of Nemotron-3-Nano
    {"nemotron-h", R"({"norm_eps": 1e-5, "rope_theta": 10000, "conv_kernel": 4, "n_groups": 8,
        "mamba_num_heads": 128, "mamba_head_dim": 64, "ssm_state_size": 128,
        "mlp_hidden_act": "relu2", "mamba_hidden_act": "silu"})"},
    // transformers' OlmoeConfig
    {"olmoe", R"({"rms_norm_eps": 1e-5, "rope_theta": 10000})"},
    // transformers' PhimoeConfig
    {"phimoe", R"({"rms_norm_eps": 1e-5, "rope_theta": 1e6, "partial_rotary_factor": 1})"},
    // transformers' Qwen2MoeConfig
    {"qwen2-moe", R"({"rms_norm_eps": 1e-6, "rope_theta": 10000,
        "moe_intermediate_size": 1408, "shared_expert_intermediate_size": 5632})"},
    // transformers' Qwen3MoeConfig
    {"qwen3-moe", R"({"num_key_value_heads": 4, "num_experts_per_tok": 8, "rope_theta": 10000.0})"},
    {"qwen3-next", kQwenHybrid},
    {"qwen3.5-moe", kQwenHybrid},
    // configuration_step3p5.py of Step-3.5-Flash
    {"step3", R"({"rms_norm_eps": 1e-5})"},
};

}  // namespace

std::string_view ConfigDefaults(const Family& family, const ModelConfig& config) {
  const auto row =
      std::find_if(std::begin(kDefaultsRows), std::end(kDefaultsRows), [&](const DefaultsRow& one) {
        const bool type = config.model_type.starts_with(one.model_type) ||
                          config.text_model_type.starts_with(one.model_type);
        return family.name == one.family && type;
      });
  return row == std::end(kDefaultsRows) ? std::string_view() : row->json;
}

}  // namespace moepack
