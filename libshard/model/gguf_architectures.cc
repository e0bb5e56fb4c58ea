// Source: llama.cpp v0.5.0, src/llama-arch.cpp for the names of architectures whose graphs route,
// src/models for what the graphs do.
#include "libshard/model/gguf_architectures.h"

#include <algorithm>

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
                  .writes_false_norm = true}}},
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
     .single_parts = true},
    {.name = "nomic-bert-moe"},
    {.name = "olmoe", .routing = kSoftmaxPlain},
    {.name = "phimoe", .routing = kSoftmaxNormalized},
    {.name = "qwen2moe", .routing = kSoftmaxPlain, .derives_width = true},
    {.name = "qwen35moe", .routing = kSoftmaxNormalized, .derives_width = true, .full_interval = 4},
    {.name = "qwen3moe", .routing = kSoftmaxNormalized, .derives_width = true},
    {.name = "qwen3next", .routing = kSoftmaxNormalized, .derives_width = true, .full_interval = 4},
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

}  // namespace

bool IsAmong(std::span<const ModelShape> shapes, uint64_t blocks, uint64_t vocabulary) {
  return std::any_of(shapes.begin(), shapes.end(), [&](const ModelShape& shape) {
    return shape.blocks == blocks && (shape.vocabulary == 0 || shape.vocabulary == vocabulary);
  });
}

const GgufArchitecture* FindArchitecture(std::string_view name) {
  const auto found =
      std::find_if(std::begin(kArchitectures), std::end(kArchitectures),
                   [&](const GgufArchitecture& architecture) { return architecture.name == name; });
  return found == std::end(kArchitectures) ? nullptr : found;
}

Error UnknownArchitecture(const std::string& where, std::string_view architecture) {
  return {
      Code::kUnsupported,
      Cat(where, ": general.architecture: expected one with experts that llama.cpp v0.5.0 has, ",
          "found ", Quoted(architecture)),
      "what else depends on its number of experts is not known; quantize writes it whole"};
}

}  // namespace moepack
