// The families that the runtime shim runs: one file each, one row each in all.cc. What they compute
// is in gguf-families.md part II and III.5, in the order of llama.cpp's graphs.
#pragma once

#include "runtime-shim/model/model_spec.h"

namespace moepack::runtime {

extern const RuntimeFamily kRunDeepseek2, kRunGlm4Moe, kRunGptOss, kRunGraniteMoe, kRunLlama,
    kRunLlama4, kRunMinimaxM2, kRunOlmoe, kRunPhimoe, kRunQwen2Moe, kRunQwen3Moe;

}  // namespace moepack::runtime
