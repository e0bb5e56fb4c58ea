// One family of models, one file: all that is particular to it stands there, in a namespace with
// the file's name, and its line in SHARD_FAMILIES makes it known. docs/contributing.md says how to
// add one.
#pragma once

#include <span>
#include <string_view>

#include "libshard/convert/gguf_model.h"
#include "libshard/graph/model_spec.h"
#include "libshard/model/config_defaults.h"
#include "libshard/model/family.h"
#include "libshard/model/gguf_architectures.h"

namespace moepack {

struct FamilyEntry {
  FamilyNames names;
  // Rows of tensor names, how the family routes, and what a config alone promises. Its names are
  // those above.
  Family (*table)();
  std::span<const ConfigDefault> defaults = {};  // the first that fits counts
  // llama.cpp's architectures that this family brought, whichever else use them.
  std::span<const GgufArchitecture> graphs = {};
  // Conversion to GGUF, as llama.cpp's converter does it, and the general.architecture that it
  // writes; empty and null if there is none.
  std::string_view architecture = {};
  Result<GgufModel> (*convert)(const MoeModel& model, const ConvertOptions& options) = nullptr;
  // What the runtime shim must know of these architectures. The computation follows llama.cpp's
  // graphs (src/models, v0.5.0), in the same order.
  std::span<const RuntimeFamily> runs = {};
};

// How many of llama.cpp's graphs route.
inline constexpr GraphRouting kSoftmaxNormalized = {.gating = Gating::kSoftmax, .normalize = true};
inline constexpr GraphRouting kSoftmaxPlain = {.gating = Gating::kSoftmax, .normalize = false};
// Sigmoid unless the keys say otherwise. For the second, conversion also writes a norm that is
// false; the third aborts without the key of the gating function.
inline constexpr GraphRouting kSigmoidOfKeys = {
    .gating = Gating::kSigmoid, .normalize = false, .reads_gating = true, .reads_weights = true};
inline constexpr GraphRouting kSigmoidOfWrittenKeys = {.gating = Gating::kSigmoid,
                                                       .normalize = false,
                                                       .reads_gating = true,
                                                       .reads_weights = true,
                                                       .writes_false_norm = true};
inline constexpr GraphRouting kSigmoidOfRequiredKeys = {.gating = Gating::kSigmoid,
                                                        .normalize = false,
                                                        .reads_gating = true,
                                                        .needs_gating = true,
                                                        .reads_weights = true,
                                                        .writes_false_norm = true};

// The families. The order matters only if names alone decide (FindFamilyByNames): of two families
// with the same names, the first is used.
#define SHARD_FAMILIES(ROW) \
  ROW(mixtral)              \
  ROW(qwen2_moe)            \
  ROW(qwen3_moe)            \
  ROW(qwen3_vl_moe)         \
  ROW(qwen3_omni_moe)       \
  ROW(qwen3_next)           \
  ROW(qwen3_5_moe)          \
  ROW(deepseek_v2)          \
  ROW(deepseek_v3)          \
  ROW(deepseek_ocr)         \
  ROW(deepseek_v4)          \
  ROW(kimi_k25)             \
  ROW(kimi_k3)              \
  ROW(glm4_moe)             \
  ROW(glm4_moe_lite)        \
  ROW(glm5)                 \
  ROW(gpt_oss)              \
  ROW(llama4)               \
  ROW(olmoe)                \
  ROW(minimax_m1)           \
  ROW(minimax_m2)           \
  ROW(minimax_m3)           \
  ROW(phimoe)               \
  ROW(granite_moe)          \
  ROW(granite_moe_hybrid)   \
  ROW(dbrx)                 \
  ROW(nemotron_h)           \
  ROW(ernie4_5_moe)         \
  ROW(gemma4_moe)           \
  ROW(hunyuan_moe)          \
  ROW(hy_v3)                \
  ROW(lfm2_moe)             \
  ROW(bailing_moe)          \
  ROW(bailing_moe_v2)       \
  ROW(bailing_moe_v3)       \
  ROW(mimo_v2)              \
  ROW(step3)                \
  ROW(laguna)               \
  ROW(mistral4)             \
  ROW(dots1)                \
  ROW(jamba)                \
  ROW(arctic)               \
  ROW(cohere2_moe)          \
  ROW(qwen4_exp)            \
  ROW(exaone_moe)           \
  ROW(solar_open)           \
  ROW(afmoe)                \
  ROW(smallthinker)         \
  ROW(grovemoe)

#define SHARD_DECLARE_FAMILY(name)  \
  namespace name {                  \
  extern const FamilyEntry kFamily; \
  }
SHARD_FAMILIES(SHARD_DECLARE_FAMILY)
#undef SHARD_DECLARE_FAMILY

}  // namespace moepack
