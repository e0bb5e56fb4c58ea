#include <algorithm>

#include "libshard/convert/converter.h"
#include "libshard/convert/families/families.h"

namespace moepack {
namespace {

constexpr GgufConverter kConverters[] = {
    {"bailing-moe", "bailingmoe", ConvertBailingMoe},
    {"bailing-moe-v2", "bailingmoe2", ConvertBailingMoeV2},
    {"deepseek-v2", "deepseek2", ConvertDeepseekV2},
    {"deepseek-v3", "deepseek2", ConvertDeepseekV3},
    {"dots1", "dots1", ConvertDots1},
    {"ernie4.5-moe", "ernie4_5-moe", ConvertErnie45Moe},
    {"gemma4-moe", "gemma4", ConvertGemma4Moe},
    {"glm4-moe", "glm4moe", ConvertGlm4Moe},
    {"glm4-moe-lite", "deepseek2", ConvertGlm4MoeLite},
    {"glm5", "glm-dsa", ConvertGlm5},
    {"gpt-oss", "gpt-oss", ConvertGptOss},
    {"granite-moe", "granitemoe", ConvertGraniteMoe},
    {"hunyuan-moe", "hunyuan-moe", ConvertHunyuanMoe},
    {"kimi-k2.5", "deepseek2", ConvertDeepseekV3},
    {"llama4", "llama4", ConvertLlama4},
    {"mimo-v2", "mimo2", ConvertMimoV2},
    {"minimax-m2", "minimax-m2", ConvertMinimaxM2},
    {"mixtral", "llama", ConvertMixtral},
    {"nemotron-h", "nemotron_h_moe", ConvertNemotronH},
    {"olmoe", "olmoe", ConvertOlmoe},
    {"phimoe", "phimoe", ConvertPhimoe},
    {"qwen2-moe", "qwen2moe", ConvertQwen2Moe},
    {"qwen3-moe", "qwen3moe", ConvertQwen3Moe},
    {"qwen3-next", "qwen3next", ConvertQwen3Next},
    {"qwen3.5-moe", "qwen35moe", ConvertQwen35Moe},
    {"step3", "step35", ConvertStep35},
};

}  // namespace

std::span<const GgufConverter> AllConverters() { return kConverters; }

const GgufConverter* FindConverter(std::string_view family) {
  const auto found = std::find_if(std::begin(kConverters), std::end(kConverters),
                                  [&](const auto& row) { return row.family == family; });
  return found == std::end(kConverters) ? nullptr : found;
}

Status CheckByConversion(const MoeModel& model) {
  const GgufConverter* converter = FindConverter(model.family().name);
  if (converter == nullptr || model.checkpoint().names_only() || model.checkpoint().is_gguf()) {
    return Ok();
  }
  ConvertOptions options;
  options.part = ConvertOptions::Part::kTensors;
  const Result<GgufModel> view = converter->convert(model, options);
  if (view || view.error().code != Code::kCorrupt) return Ok();
  return view.error();
}

}  // namespace moepack
