// The families that the runtime shim runs: one file each, one row each in all.cc. Their computation
// follows llama.cpp's graphs (src/models, v0.5.0), in the same order.
#pragma once

#include "libshard/graph/model_spec.h"

namespace moepack::runtime {

extern const RuntimeFamily kRunBailingMoe, kRunBailingMoe2, kRunDeepseek2, kRunDeepseek32,
    kRunGlmDsa, kRunMimo2, kRunDots1, kRunErnie45Moe, kRunGemma4, kRunGlm4Moe, kRunGptOss,
    kRunGraniteMoe, kRunHunyuanMoe, kRunLlama, kRunLlama4, kRunMinimaxM2, kRunNemotronH, kRunOlmoe,
    kRunPhimoe, kRunQwen2Moe, kRunQwen35Moe, kRunQwen3Moe, kRunQwen3Next, kRunStep35;

}  // namespace moepack::runtime
