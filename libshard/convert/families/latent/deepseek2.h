// The runtime's architecture "deepseek2": multi-head latent attention (MLA) with DeepSeek's
// experts. DeepSeek-V2, V3, Kimi-K2 and GLM-4.7-Flash are variants of it.
#pragma once

#include <string_view>

#include "libshard/convert/hf_family.h"

namespace moepack {

struct Deepseek2 {
  std::string_view architecture = "deepseek2";
  // An indexer picks the keys for attention ("deepseek32", "glm-dsa").
  bool indexer = false;
  bool selection_bias = false;  // e_score_correction_bias in every layer with experts
};

// Rows, sizes, keys and checks. Reads the config once to know which projections queries have.
// kUnsupported for models that the runtime cannot load or would compute wrongly.
Result<HfFamily> MakeDeepseek2(const MoeModel& model, const Deepseek2& variant);

}  // namespace moepack
