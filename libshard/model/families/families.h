// One function per family, each in its own file; all.cc lists them.
#pragma once

#include "libshard/model/family.h"

namespace moepack {

Family MixtralFamily();
Family Qwen2MoeFamily();
Family Qwen3MoeFamily();
Family Qwen3VlMoeFamily();
Family Qwen3OmniMoeFamily();
Family Qwen3NextFamily();
Family Qwen35MoeFamily();
Family DeepseekV2Family();
Family DeepseekV3Family();
Family DeepseekOcrFamily();
Family DeepseekV4Family();
Family KimiK25Family();
Family Glm4MoeFamily();
Family Glm4MoeLiteFamily();
Family Glm5Family();
Family GptOssFamily();
Family Llama4Family();
Family OlmoeFamily();
Family MinimaxM1Family();
Family MinimaxM2Family();
Family MinimaxM3Family();
Family PhimoeFamily();
Family GraniteMoeFamily();
Family GraniteMoeHybridFamily();
Family DbrxFamily();
Family NemotronHFamily();
Family Ernie45MoeFamily();
Family Gemma4MoeFamily();
Family HunyuanMoeFamily();
Family Lfm2MoeFamily();
Family BailingMoeFamily();
Family BailingMoeV2Family();
Family MimoV2Family();
Family Step3Family();
Family LagunaFamily();
Family Mistral4Family();
Family Dots1Family();
Family JambaFamily();
Family ArcticFamily();

}  // namespace moepack
