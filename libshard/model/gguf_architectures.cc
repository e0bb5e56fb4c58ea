// Source: llama.cpp v0.5.0, src/llama-arch.cpp for the names of architectures whose graphs route,
// src/models for what the graphs do.
#include "libshard/model/gguf_architectures.h"

#include <algorithm>

#include "libshard/base/text/suggest.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr GraphRouting kSoftmaxNormalized = {.gating = Gating::kSoftmax, .normalize = true};
constexpr GraphRouting kSoftmaxPlain = {.gating = Gating::kSoftmax, .normalize = false};

// GLM-4.7-Flash with and without its block for multi-token prediction: a deepseek2 whose older
// files lack expert_gating_func.
constexpr ModelShape kGlmFlash[] = {{47, 154880}, {48, 154880}};
// DeepSeek-V2-Lite and its relatives.
constexpr ModelShape kLite[] = {{26}, {27}, {48, 128256}};
// Llama-4 Maverick.
constexpr uint64_t kMaverickExperts = 128;

constexpr GgufArchitecture kArchitectures[] = {
    {.name = "afmoe"},
    {.name = "arctic"},
    {.name = "bailingmoe",
     .routing = {{.gating = Gating::kSoftmax,
                  .normalize = false,
                  .reads_weights = true,
                  .writes_false_norm = true}}},
    {.name = "bailingmoe2",
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_gating = true,
                  .needs_gating = true,
                  .reads_weights = true,
                  .writes_false_norm = true}},
     .needs_mtp = true},
    {.name = "bailingmoe3"},
    {.name = "cohere2moe"},
    {.name = "dbrx", .routing = kSoftmaxNormalized},
    {.name = "deepseek"},
    {.name = "deepseek2",
     .routing = {{.gating = Gating::kSoftmax,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true,
                  .sigmoid = kGlmFlash}},
     .direct_queries = kLite,
     .cards = CardConvention::kWithoutEmbedding},
    {.name = "deepseek2-ocr"},
    {.name = "deepseek32",
     .routing = {{.gating = Gating::kSoftmax,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true}}},
    {.name = "deepseek4"},
    {.name = "dots1",
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_gating = true,
                  .needs_gating = true,
                  .reads_weights = true,
                  .writes_false_norm = true}}},
    {.name = "ernie4_5-moe",
     .routing = kSoftmaxNormalized,
     .cards = CardConvention::kWithoutEmbedding},
    {.name = "exaone-moe"},
    {.name = "gemma4", .routing = kSoftmaxNormalized},
    {.name = "glm-dsa",
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true}},
     .cards = CardConvention::kWithoutTables},
    {.name = "glm4moe",
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true,
                  .writes_false_norm = true}},
     .cards = CardConvention::kWithoutTables},
    {.name = "gpt-oss",
     .routing = {{.gating = Gating::kSoftmaxAfterTopK, .normalize = false}},
     .window = {{.period = 2, .tokens = 128, .reads_key = true}},
     .cards = CardConvention::kWithoutEmbedding},
    {.name = "granitehybrid", .routing = kSoftmaxNormalized},
    {.name = "granitemoe", .routing = kSoftmaxNormalized},
    {.name = "grok"},
    {.name = "grovemoe"},
    {.name = "hunyuan-moe", .routing = kSoftmaxNormalized},
    {.name = "hy_v3"},
    {.name = "jamba"},
    {.name = "kimi-k3"},
    {.name = "kimi-linear"},
    {.name = "laguna"},
    {.name = "lfm2moe"},
    {.name = "llada-moe"},
    {.name = "llama", .routing = kSoftmaxNormalized},
    {.name = "llama4",
     .routing = {{.gating = Gating::kSigmoidAfterTopK, .normalize = false}},
     .experts_without_norm = kMaverickExperts,
     .window = {{.period = 4, .tokens = 8192, .reads_key = false}}},
    {.name = "mimo2", .routing = {{.gating = Gating::kSigmoid, .normalize = true}}},
    {.name = "minimax-01"},
    {.name = "minimax-m2",
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = true,
                  .reads_gating = true,
                  .needs_gating = true}},
     .cards = CardConvention::kWithoutEmbedding},
    {.name = "minimax-m3"},
    {.name = "mistral4"},
    {.name = "nemotron_h_moe",
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_weights = true,
                  .writes_false_norm = true}},
     .single_parts = true,
     .needs_mtp = true},
    {.name = "nomic-bert-moe"},
    {.name = "olmoe", .routing = kSoftmaxPlain},
    {.name = "phimoe", .routing = kSoftmaxNormalized},
    {.name = "qwen2moe", .routing = kSoftmaxPlain, .derives_width = true},
    {.name = "qwen35moe",
     .routing = kSoftmaxNormalized,
     .derives_width = true,
     .full_interval = 4,
     .needs_mtp = true},
    {.name = "qwen3moe", .routing = kSoftmaxNormalized, .derives_width = true},
    {.name = "qwen3next",
     .routing = kSoftmaxNormalized,
     .derives_width = true,
     .full_interval = 4,
     .needs_mtp = true},
    {.name = "qwen3vlmoe", .routing = kSoftmaxNormalized, .derives_width = true},
    {.name = "qwen4exp"},
    {.name = "rnd1"},
    {.name = "sarvam-moe"},
    {.name = "smallthinker"},
    {.name = "step35",
     .routing = {{.gating = Gating::kSigmoid,
                  .normalize = false,
                  .reads_gating = true,
                  .reads_weights = true}}},
};
static_assert(std::size(kArchitectures) == 52);

// Architectures with experts that only ik_llama.cpp has (its src/llama-arch.cpp of 2026-08-15).
constexpr std::string_view kOfIkLlamaCpp[] = {"cohere2_moe", "openpangu"};

}  // namespace

bool IsAmong(std::span<const ModelShape> shapes, uint64_t blocks, uint64_t vocabulary) {
  return std::any_of(shapes.begin(), shapes.end(), [&](const ModelShape& shape) {
    return shape.blocks == blocks && (shape.vocabulary == 0 || shape.vocabulary == vocabulary);
  });
}

bool NeedsMtp(std::string_view architecture) {
  const GgufArchitecture* const row = FindArchitecture(architecture);
  return row == nullptr || !row->routing || row->needs_mtp;
}

const GgufArchitecture* FindArchitecture(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                   [&](const GgufArchitecture& architecture) { return architecture.name == name; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

std::string DescribeUnknownArchitecture(std::string_view name) {
  const bool of_ik = std::find(std::begin(kOfIkLlamaCpp), std::end(kOfIkLlamaCpp), name) !=
                     std::end(kOfIkLlamaCpp);
  if (of_ik) return "an architecture of ik_llama.cpp";
  std::vector<std::string> names;
  for (const GgufArchitecture& row : kArchitectures) names.emplace_back(row.name);
  const std::string closest = ClosestWord(name, names);
  return closest.empty() ? "" : Cat("the closest name is ", Quoted(closest));
}

}  // namespace moepack
