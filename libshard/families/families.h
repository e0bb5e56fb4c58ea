// One family of models, one file: all that is particular to it stands there, and its line in
// SHARD_FAMILIES makes it known. docs/contributing.md says how to add one.
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
  ROW(kMixtral)             \
  ROW(kQwen2Moe)            \
  ROW(kQwen3Moe)            \
  ROW(kQwen3VlMoe)          \
  ROW(kQwen3OmniMoe)        \
  ROW(kQwen3Next)           \
  ROW(kQwen35Moe)           \
  ROW(kDeepseekV2)          \
  ROW(kDeepseekV3)          \
  ROW(kDeepseekOcr)         \
  ROW(kDeepseekV4)          \
  ROW(kKimiK25)             \
  ROW(kKimiK3)              \
  ROW(kGlm4Moe)             \
  ROW(kGlm4MoeLite)         \
  ROW(kGlm5)                \
  ROW(kGptOss)              \
  ROW(kLlama4)              \
  ROW(kOlmoe)               \
  ROW(kMinimaxM1)           \
  ROW(kMinimaxM2)           \
  ROW(kMinimaxM3)           \
  ROW(kPhimoe)              \
  ROW(kGraniteMoe)          \
  ROW(kGraniteMoeHybrid)    \
  ROW(kDbrx)                \
  ROW(kNemotronH)           \
  ROW(kErnie45Moe)          \
  ROW(kGemma4Moe)           \
  ROW(kHunyuanMoe)          \
  ROW(kHyV3)                \
  ROW(kLfm2Moe)             \
  ROW(kBailingMoe)          \
  ROW(kBailingMoeV2)        \
  ROW(kBailingMoeV3)        \
  ROW(kMimoV2)              \
  ROW(kStep3)               \
  ROW(kLaguna)              \
  ROW(kMistral4)            \
  ROW(kDots1)               \
  ROW(kJamba)               \
  ROW(kArctic)              \
  ROW(kCohere2Moe)          \
  ROW(kQwen4Exp)            \
  ROW(kExaoneMoe)           \
  ROW(kSolarOpen)           \
  ROW(kAfmoe)               \
  ROW(kSmallThinker)        \
  ROW(kGroveMoe)

#define SHARD_DECLARE_FAMILY(name) extern const FamilyEntry name;
SHARD_FAMILIES(SHARD_DECLARE_FAMILY)
#undef SHARD_DECLARE_FAMILY

}  // namespace moepack
