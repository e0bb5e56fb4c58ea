// When a rule of llama-quantize applies: one row per condition. Source: llama.cpp v0.5.0,
// src/llama-quant.cpp; docs/quantization.md has the rules as tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace moepack {

// What the rules depend on besides the tensor itself.
struct LlamaFacts {
  std::string architecture = {};
  uint64_t layers = 0;               // block_count, including blocks for multi-token prediction
  uint64_t expert_count = 1;         // per layer of the whole model
  uint64_t heads = 0, kv_heads = 0;  // of layer 0
  uint64_t v_tensors = 0;
  bool tied = false;
  bool importance = false;  // there is an importance matrix

  // Query heads per key-value head.
  uint64_t gqa() const { return kv_heads == 0 ? 0 : heads / kv_heads; }
};

// Matrix i of n, as docs/quantization.md counts them.
struct CountedMatrix {
  const LlamaFacts& facts;
  uint64_t i = 0, n = 0;

  bool first_eighth() const { return i < n / 8; }
  bool last_eighth() const { return i >= 7 * n / 8; }
  // The eighths at both ends, and every third matrix between them.
  bool more_bits() const { return first_eighth() || last_eighth() || (i - n / 8) % 3 == 2; }
};

struct LlamaCondition {
  std::string_view source;  // how src/llama-quant.cpp writes it
  bool (*holds)(const CountedMatrix& matrix) = nullptr;
};

namespace when {

inline constexpr LlamaCondition kNowhere = {"", [](const CountedMatrix&) { return false; }};
inline constexpr LlamaCondition kEverywhere = {"", [](const CountedMatrix&) { return true; }};

// The model.

// Mixtral, as llama-quantize sees it: its attention is small beside the experts.
inline constexpr LlamaCondition kEightExperts = {
    "hparams.n_expert == 8",
    [](const CountedMatrix& matrix) { return matrix.facts.expert_count == 8; }};
// LLaMA 2 70B: its value matrices are small because eight queries share each.
inline constexpr LlamaCondition kLlama70b = {
    "model.type == LLM_TYPE_70B", [](const CountedMatrix& matrix) {
      const LlamaFacts& facts = matrix.facts;
      return facts.architecture == "llama" && facts.layers == 80 && facts.heads != facts.kv_heads;
    }};
inline constexpr LlamaCondition kFourQueriesPerKey = {
    "hparams.n_gqa() >= 4", [](const CountedMatrix& matrix) { return matrix.facts.gqa() >= 4; }};
inline constexpr LlamaCondition kFourQueriesOrExperts = {
    "hparams.n_gqa() >= 4 || hparams.n_expert >= 4", [](const CountedMatrix& matrix) {
      return matrix.facts.gqa() >= 4 || matrix.facts.expert_count >= 4;
    }};

// The place of the matrix.

inline constexpr LlamaCondition kFirstTwo = {
    "i_attention_wv < 2", [](const CountedMatrix& matrix) { return matrix.i < 2; }};
inline constexpr LlamaCondition kFirstFour = {
    "i_attention_wv < 4", [](const CountedMatrix& matrix) { return matrix.i < 4; }};
inline constexpr LlamaCondition kFirstSixteenth = {
    "i_layer < n_layer/16", [](const CountedMatrix& matrix) { return matrix.i < matrix.n / 16; }};
inline constexpr LlamaCondition kFirstEighth = {
    "i_layer < n_layer/8", [](const CountedMatrix& matrix) { return matrix.first_eighth(); }};
inline constexpr LlamaCondition kMiddle = {
    "i_layer >= n_layer/8 && i_layer < 7*n_layer/8",
    [](const CountedMatrix& matrix) { return !matrix.first_eighth() && !matrix.last_eighth(); }};
inline constexpr LlamaCondition kEndsAndEveryThird = {
    "use_more_bits(i_layer, n_layer)",
    [](const CountedMatrix& matrix) { return matrix.more_bits(); }};

// Both.

inline constexpr LlamaCondition kFirstEighthImportance = {
    "has_imatrix && i_layer < n_layer/8",
    [](const CountedMatrix& matrix) { return matrix.first_eighth() && matrix.facts.importance; }};
inline constexpr LlamaCondition kFirstEighthNoImportance = {
    "i_layer < n_layer/8 && !has_imatrix",
    [](const CountedMatrix& matrix) { return matrix.first_eighth() && !matrix.facts.importance; }};
inline constexpr LlamaCondition kFirstEighthOrMixtral = {
    "i_layer < n_layer/8 || (hparams.n_expert == 8 && use_more_bits(i_layer, n_layer))",
    [](const CountedMatrix& matrix) {
      return matrix.first_eighth() || (kEightExperts.holds(matrix) && matrix.more_bits());
    }};

}  // namespace when
}  // namespace moepack
