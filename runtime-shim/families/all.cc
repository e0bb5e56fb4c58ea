#include "runtime-shim/families/families.h"

namespace moepack::runtime {

std::span<const RuntimeFamily> AllRuntimeFamilies() {
  static const RuntimeFamily kFamilies[] = {
      kRunLlama,      kRunQwen2Moe,   kRunQwen3Moe,   kRunOlmoe,       kRunDeepseek2, kRunGlm4Moe,
      kRunGptOss,     kRunLlama4,     kRunMinimaxM2,  kRunGraniteMoe,  kRunPhimoe,    kRunDots1,
      kRunErnie45Moe, kRunHunyuanMoe, kRunBailingMoe, kRunBailingMoe2, kRunQwen3Next, kRunQwen35Moe,
      kRunMimo2,      kRunStep35,     kRunDeepseek32, kRunGlmDsa,      kRunNemotronH, kRunGemma4,
  };
  return kFamilies;
}

}  // namespace moepack::runtime
