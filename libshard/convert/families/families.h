// One function per family that has a converter; all.cc lists them.
#pragma once

#include "libshard/convert/gguf_model.h"

namespace moepack {

Result<GgufModel> ConvertBailingMoe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertBailingMoeV2(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertDeepseekV2(const MoeModel& model, const ConvertOptions& options);
// Also handles Kimi-K2 and K2.5.
Result<GgufModel> ConvertDeepseekV3(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertDots1(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertErnie45Moe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertGemma4Moe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertGlm4Moe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertGlm4MoeLite(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertGlm5(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertGptOss(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertGraniteMoe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertHunyuanMoe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertLlama4(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertMimoV2(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertMinimaxM2(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertMixtral(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertNemotronH(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertOlmoe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertPhimoe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertQwen2Moe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertQwen35Moe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertQwen3Moe(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertQwen3Next(const MoeModel& model, const ConvertOptions& options);
Result<GgufModel> ConvertStep35(const MoeModel& model, const ConvertOptions& options);

}  // namespace moepack
