// Source: llama.cpp v0.5.0, src/llama-arch.cpp for the keys, src/llama-model-loader.cpp (get_key,
// get_key_or_arr, get_arr) and src/models for the types with which they are read.
#include "libshard/format/gguf_key_types.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr auto kReadsU32 = GgufKeyKind::kCount, kReadsF32 = GgufKeyKind::kNumber,
               kReadsBool = GgufKeyKind::kFlag, kReadsU64 = GgufKeyKind::kWide;

constexpr GgufKeyType kArchitectureKeys[] = {
    {"vocab_size", kReadsU32},
    {"context_length", kReadsU32},
    {"embedding_length", kReadsU32},
    {"embedding_length_out", kReadsU32},
    {"embedding_length_per_layer_input", kReadsU32},
    {"features_length", kReadsU32},
    {"block_count", kReadsU32},
    {"leading_dense_block_count", kReadsU32},
    {"feed_forward_length", kReadsU32, true},
    {"expert_feed_forward_length", kReadsU32, true},
    {"expert_shared_feed_forward_length", kReadsU32},
    {"expert_chunk_feed_forward_length", kReadsU32},
    {"swiglu_clamp_exp", kReadsF32, true},
    {"swiglu_clamp_shexp", kReadsF32, true},
    {"use_parallel_residual", kReadsBool},
    {"expert_count", kReadsU32},
    {"expert_used_count", kReadsU32, true},
    {"expert_shared_count", kReadsU32},
    {"expert_group_count", kReadsU32},
    {"expert_group_used_count", kReadsU32},
    {"expert_weights_scale", kReadsF32},
    {"expert_weights_norm", kReadsBool},
    {"expert_gating_func", kReadsU32},
    {"expert_group_scale", kReadsF32},
    {"experts_per_group", kReadsU32},
    {"moe_every_n_layers", kReadsU32},
    {"moe_latent_size", kReadsU32},
    {"expert_latent_length", kReadsU32},
    {"activation.situ_beta", kReadsF32},
    {"activation.situ_linear_beta", kReadsF32},
    {"attn_res.block_size", kReadsU32},
    {"nextn_predict_layers", kReadsU32},
    {"n_deepstack_layers", kReadsU32},
    {"deepstack_mapping", kReadsU32},
    {"pooling_type", kReadsU32},
    {"logit_scale", kReadsF32},
    {"decoder_start_token_id", kReadsU32},
    {"decoder_block_count", kReadsU32},
    {"attn_logit_softcapping", kReadsF32},
    {"router_logit_softcapping", kReadsF32},
    {"final_logit_softcapping", kReadsF32},
    {"swin_norm", kReadsBool},
    {"rescale_every_n_layers", kReadsU32},
    {"time_mix_extra_dim", kReadsU32},
    {"time_decay_extra_dim", kReadsU32},
    {"residual_scale", kReadsF32},
    {"embedding_scale", kReadsF32},
    {"token_shift_count", kReadsU32},
    {"interleave_moe_layer_step", kReadsU32},
    {"full_attention_interval", kReadsU32},
    {"hash_layer_count", kReadsU32},
    {"attention.head_count", kReadsU32, true},
    {"attention.head_count_kv", kReadsU32, true},
    {"attention.max_alibi_bias", kReadsF32},
    {"attention.clamp_kqv", kReadsF32},
    {"attention.key_length", kReadsU32},
    {"attention.value_length", kReadsU32},
    {"attention.layer_norm_epsilon", kReadsF32},
    {"attention.layer_norm_rms_epsilon", kReadsF32},
    {"attention.group_norm_epsilon", kReadsF32},
    {"attention.group_norm_groups", kReadsU32},
    {"attention.causal", kReadsBool},
    {"attention.q_lora_rank", kReadsU32},
    {"attention.kv_lora_rank", kReadsU32},
    {"attention.decay_lora_rank", kReadsU32},
    {"attention.iclr_lora_rank", kReadsU32},
    {"attention.value_residual_mix_lora_rank", kReadsU32},
    {"attention.gate_lora_rank", kReadsU32},
    {"attention.relative_buckets_count", kReadsU32},
    {"attention.sliding_window", kReadsU32},
    {"attention.sliding_window_pattern", kReadsU32, true},
    {"attention.scale", kReadsF32},
    {"attention.output_scale", kReadsF32},
    {"attention.value_scale", kReadsF32},
    {"attention.temperature_length", kReadsU32},
    {"attention.temperature_scale", kReadsF32},
    {"attention.key_length_mla", kReadsU32},
    {"attention.value_length_mla", kReadsU32},
    {"attention.key_length_swa", kReadsU32},
    {"attention.value_length_swa", kReadsU32},
    {"attention.indexer.head_count", kReadsU32},
    {"attention.indexer.key_length", kReadsU32},
    {"attention.indexer.top_k", kReadsU32},
    {"attention.indexer.block_size", kReadsU32},
    {"attention.indexer.local_blocks", kReadsU32},
    {"attention.indexer.types", kReadsU32, true},
    {"attention.output_group_count", kReadsU32},
    {"attention.output_lora_rank", kReadsU32},
    {"attention.compress_rope_freq_base", kReadsF32},
    {"attention.compress_ratios", kReadsU32, true},
    {"attention.shared_kv_layers", kReadsU32},
    {"attention.recurrent_layers", kReadsU32, true},
    {"hyper_connection.count", kReadsU32},
    {"hyper_connection.low_rank", kReadsU32},
    {"hyper_connection.sinkhorn_iterations", kReadsU32},
    {"hyper_connection.epsilon", kReadsF32},
    {"rope.dimension_count", kReadsU32},
    {"rope.dimension_count_swa", kReadsU32},
    {"rope.dimension_sections", kReadsU32},
    {"rope.freq_base", kReadsF32},
    {"rope.freq_base_swa", kReadsF32},
    {"rope.scale_linear", kReadsF32},
    {"rope.scaling.factor", kReadsF32},
    {"rope.scaling.alpha", kReadsF32},
    {"rope.scaling.attn_factor", kReadsF32},
    {"rope.scaling.original_context_length", kReadsU32},
    {"rope.scaling.finetuned", kReadsBool},
    {"rope.scaling.yarn_log_multiplier", kReadsF32},
    {"rope.scaling.yarn_ext_factor", kReadsF32},
    {"rope.scaling.yarn_attn_factor", kReadsF32},
    {"rope.scaling.yarn_beta_fast", kReadsF32},
    {"rope.scaling.yarn_beta_slow", kReadsF32},
    {"ssm.conv_kernel", kReadsU32},
    {"ssm.inner_size", kReadsU32},
    {"ssm.state_size", kReadsU32},
    {"ssm.time_step_rank", kReadsU32},
    {"ssm.group_count", kReadsU32},
    {"ssm.dt_b_c_rms", kReadsBool},
    {"kda.head_dim", kReadsU32},
    {"kda.safe_gate", kReadsBool},
    {"kda.gate_lower_bound", kReadsF32},
    {"wkv.head_size", kReadsU32},
    {"posnet.embedding_length", kReadsU32},
    {"posnet.block_count", kReadsU32},
    {"convnext.embedding_length", kReadsU32},
    {"convnext.block_count", kReadsU32},
    {"target_layers", kReadsU32},
    {"target_hidden_size", kReadsU32},
    {"norm_before_residual", kReadsBool},
    {"shortconv.l_cache", kReadsU32},
    {"ple.layers", kReadsU32},
    {"ple.ngram_size", kReadsU32},
    {"ple.heads_per_ngram", kReadsU32},
    {"ple.conv_kernel", kReadsU32},
    {"ple.eos_token_id", kReadsU32},
    {"ple.image_token_id", kReadsU32},
    {"ple.layer_multipliers", kReadsU64},
    {"ple.head_offsets", kReadsU64},
    {"ple.head_vocab_sizes", kReadsU64},
};

constexpr GgufKeyType kOtherKeys[] = {
    {"general.file_type", kReadsU32},
    {"general.quantization_version", kReadsU32},
    {"tokenizer.ggml.token_type", kReadsU32},
    {"tokenizer.ggml.token_type_count", kReadsU32},
    {"tokenizer.ggml.scores", kReadsF32},
    {"tokenizer.ggml.bos_token_id", kReadsU32},
    {"tokenizer.ggml.eos_token_id", kReadsU32},
    {"tokenizer.ggml.eot_token_id", kReadsU32},
    {"tokenizer.ggml.eom_token_id", kReadsU32},
    {"tokenizer.ggml.unknown_token_id", kReadsU32},
    {"tokenizer.ggml.seperator_token_id", kReadsU32},
    {"tokenizer.ggml.padding_token_id", kReadsU32},
    {"tokenizer.ggml.cls_token_id", kReadsU32},
    {"tokenizer.ggml.mask_token_id", kReadsU32},
    {"tokenizer.ggml.fim_pre_token_id", kReadsU32},
    {"tokenizer.ggml.fim_suf_token_id", kReadsU32},
    {"tokenizer.ggml.fim_mid_token_id", kReadsU32},
    {"tokenizer.ggml.fim_pad_token_id", kReadsU32},
    {"tokenizer.ggml.fim_rep_token_id", kReadsU32},
    {"tokenizer.ggml.fim_sep_token_id", kReadsU32},
    {"tokenizer.ggml.prefix_token_id", kReadsU32},
    {"tokenizer.ggml.suffix_token_id", kReadsU32},
    {"tokenizer.ggml.middle_token_id", kReadsU32},
    {"tokenizer.ggml.suppress_tokens", kReadsU32},
    {"tokenizer.ggml.add_bos_token", kReadsBool},
    {"tokenizer.ggml.add_eos_token", kReadsBool},
    {"tokenizer.ggml.add_sep_token", kReadsBool},
    {"tokenizer.ggml.add_space_prefix", kReadsBool},
    {"tokenizer.ggml.remove_extra_whitespaces", kReadsBool},
    {"tokenizer.ggml.normalizer.lowercase", kReadsBool},
    {"tokenizer.ggml.normalizer.strip_accents", kReadsBool},
};

GgufType ReadAs(GgufKeyKind kind) {
  switch (kind) {
    case GgufKeyKind::kCount:
      return GgufType::kU32;
    case GgufKeyKind::kNumber:
      return GgufType::kF32;
    case GgufKeyKind::kWide:
      return GgufType::kU64;
    case GgufKeyKind::kFlag:
      break;
  }
  return GgufType::kBool;
}

bool IsAccepted(const GgufValue& value, GgufKeyKind kind) {
  const std::optional<GgufType> element = value.ElementType();
  if (!element) return value.type == ReadAs(kind);
  if (value.Count() == 0 || *element == ReadAs(kind)) return true;
  return kind == kReadsU32 && (*element == GgufType::kI32 || *element == GgufType::kBool);
}

template <class T>
bool AllAreWhole(const std::vector<double>& numbers) {
  return std::all_of(numbers.begin(), numbers.end(), [](double number) {
    return number == std::floor(number) && number >= double{std::numeric_limits<T>::min()} &&
           number <= double{std::numeric_limits<T>::max()};
  });
}

std::optional<GgufValue> CountsOf(const std::vector<double>& numbers, bool array) {
  if (AllAreWhole<uint32_t>(numbers)) {
    const std::vector<uint32_t> counts(numbers.begin(), numbers.end());
    return array ? GgufValue::U32s(counts) : GgufValue::U32(counts.front());
  }
  if (!array || !AllAreWhole<int32_t>(numbers)) return std::nullopt;
  return GgufValue::I32s(std::vector<int32_t>(numbers.begin(), numbers.end()));
}

std::optional<GgufValue> NumbersOf(const std::vector<double>& numbers, bool array) {
  std::vector<float> floats;
  for (const double number : numbers) {
    floats.push_back(static_cast<float>(number));
    if (std::isfinite(floats.back()) != std::isfinite(number)) return std::nullopt;
  }
  return array ? GgufValue::F32s(floats) : GgufValue::F32(floats.front());
}

std::optional<GgufValue> FlagOf(const std::vector<double>& numbers, bool array) {
  if (array || (numbers.front() != 0 && numbers.front() != 1)) return std::nullopt;
  return GgufValue::Bool(numbers.front() == 1);
}

// No value if the type that llama.cpp reads cannot hold this one.
std::optional<GgufValue> Corrected(const GgufValue& value, GgufKeyKind kind) {
  if (kind == kReadsU64) {
    const auto wide = value.type == GgufType::kArray ? value.AsUints() : std::nullopt;
    return wide ? std::optional(GgufValue::U64s(*wide)) : std::nullopt;
  }
  const std::optional<std::vector<double>> numbers = value.AsNumbers();
  if (!numbers || numbers->empty()) return std::nullopt;
  const bool array = value.type == GgufType::kArray;
  if (kind == kReadsU32) return CountsOf(*numbers, array);
  return kind == kReadsF32 ? NumbersOf(*numbers, array) : FlagOf(*numbers, array);
}

std::string SpellType(const GgufValue& value) {
  const std::optional<GgufType> element = value.ElementType();
  return element ? Cat("an array of ", GgufTypeName(*element))
                 : std::string(GgufTypeName(value.type));
}

// " -1", or "" for anything but one number.
std::string SpellNumber(const GgufValue& value) {
  const auto numbers = value.AsNumbers();
  if (!numbers || numbers->size() != 1) return "";
  const double number = numbers->front();
  const bool whole = std::abs(number) < 0x1p53 && number == std::floor(number);
  return whole ? Cat(" ", static_cast<int64_t>(number)) : Cat(" ", number);
}

// One sentence for all keys of a kind: a file has either none of them or many.
void WarnOfKeys(const std::string& where, const std::vector<std::string>& keys, const char* what,
                std::vector<std::string>& warnings) {
  if (keys.empty()) return;
  const std::string more =
      keys.size() == 1 ? "" : Cat(" (and ", Plural(keys.size() - 1, "other key"), " like it)");
  warnings.push_back(Cat(where, ": key ", keys.front(), more, what));
}

}  // namespace

const GgufKeyType* FindGgufKeyType(std::string_view architecture, std::string_view key) {
  const auto find = [](std::span<const GgufKeyType> rows, std::string_view name) {
    const auto row = std::find_if(rows.begin(), rows.end(),
                                  [&](const GgufKeyType& type) { return type.name == name; });
    return row == rows.end() ? nullptr : &*row;
  };
  const bool own = !architecture.empty() && key.size() > architecture.size() &&
                   key.starts_with(architecture) && key[architecture.size()] == '.';
  return own ? find(kArchitectureKeys, key.substr(architecture.size() + 1)) : find(kOtherKeys, key);
}

std::vector<std::string> CorrectGgufTypes(const std::string& where, GgufMetadata& metadata) {
  const std::string architecture = metadata.Architecture();
  std::vector<std::string> corrected, kept;
  for (size_t i = 0; i < metadata.entries().size(); ++i) {
    const GgufEntry& entry = metadata.entries()[i];
    const GgufKeyType* const row = FindGgufKeyType(architecture, entry.key);
    if (row == nullptr || IsAccepted(entry.value, row->kind)) continue;
    const std::string text = Cat(Quoted(entry.key), ": expected ", GgufTypeName(ReadAs(row->kind)),
                                 ", found ", SpellType(entry.value));
    std::optional<GgufValue> value = Corrected(entry.value, row->kind);
    (value ? corrected : kept).push_back(text);
    if (value) metadata.Set(std::string(entry.key), *std::move(value));
  }
  std::vector<std::string> warnings;
  WarnOfKeys(where, corrected,
             ", which llama.cpp refuses; build and quantize write the expected type", warnings);
  WarnOfKeys(
      where, kept,
      ", which llama.cpp refuses, with a value that the expected type cannot hold; build and "
      "quantize refuse the file",
      warnings);
  return warnings;
}

Status CheckGgufTypes(const std::string& where, const GgufMetadata& metadata) {
  const std::string architecture = metadata.Architecture();
  for (const GgufEntry& entry : metadata.entries()) {
    const GgufKeyType* const row = FindGgufKeyType(architecture, entry.key);
    if (row == nullptr || IsAccepted(entry.value, row->kind)) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": key ", Quoted(entry.key), ": expected a value that fits ",
                     GgufTypeName(ReadAs(row->kind)), ", as llama.cpp reads it, found ",
                     SpellType(entry.value), SpellNumber(entry.value)),
                 Cat("llama.cpp's gguf_set_metadata.py writes another value, and "
                     "`gguf_new_metadata.py --remove-metadata ",
                     ShellWord(entry.key), "` leaves the key out")};
  }
  return Ok();
}

void CutGgufBlocks(uint64_t before, uint64_t after, GgufMetadata& metadata) {
  const std::string architecture = metadata.Architecture();
  for (size_t i = 0; i < metadata.entries().size(); ++i) {
    const GgufEntry& entry = metadata.entries()[i];
    const GgufKeyType* const row = FindGgufKeyType(architecture, entry.key);
    if (row == nullptr || !row->per_layer || entry.value.type != GgufType::kArray) continue;
    if (entry.value.Count() == before)
      metadata.Set(std::string(entry.key), entry.value.First(after));
  }
}

}  // namespace moepack
