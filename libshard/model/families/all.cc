// The list of families. A new family needs its file, a line in families.h and a line here. The
// order matters only if names alone decide (FindFamilyByNames): of two families with the same
// names, the first is used.
#include "libshard/model/families/families.h"

namespace moepack {

const std::vector<Family>& AllFamilies() {
  // Never destroyed, because anything that lives until the program ends may borrow the rules.
  static const auto* const kAll = new std::vector<Family>{
      // clang-format off
      MixtralFamily(),
      Qwen2MoeFamily(),
      Qwen3MoeFamily(),
      Qwen3VlMoeFamily(),
      Qwen3OmniMoeFamily(),
      Qwen3NextFamily(),
      Qwen35MoeFamily(),
      DeepseekV2Family(),
      DeepseekV3Family(),
      DeepseekOcrFamily(),
      DeepseekV4Family(),
      KimiK25Family(),
      Glm4MoeFamily(),
      Glm4MoeLiteFamily(),
      Glm5Family(),
      GptOssFamily(),
      Llama4Family(),
      OlmoeFamily(),
      MinimaxM1Family(),
      MinimaxM2Family(),
      MinimaxM3Family(),
      PhimoeFamily(),
      GraniteMoeFamily(),
      GraniteMoeHybridFamily(),
      DbrxFamily(),
      NemotronHFamily(),
      Ernie45MoeFamily(),
      Gemma4MoeFamily(),
      HunyuanMoeFamily(),
      Lfm2MoeFamily(),
      BailingMoeFamily(),
      BailingMoeV2Family(),
      MimoV2Family(),
      Step3Family(),
      LagunaFamily(),
      Mistral4Family(),
      Dots1Family(),
      JambaFamily(),
      ArcticFamily(),
      // clang-format on
  };
  return *kAll;
}

}  // namespace moepack
