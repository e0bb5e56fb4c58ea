#include "libshard/model/gguf_architectures.h"

#include <algorithm>
#include <array>

#include "libshard/base/text.h"

namespace shard {
namespace {

// llama.cpp v0.5.0, src/llama-arch.cpp: those whose graphs route.
constexpr std::array<std::string_view, 52> kArchitectures = {
    "afmoe",      "arctic",        "bailingmoe",     "bailingmoe2",    "bailingmoe3", "cohere2moe",
    "dbrx",       "deepseek",      "deepseek2",      "deepseek2-ocr",  "deepseek32",  "deepseek4",
    "dots1",      "ernie4_5-moe",  "exaone-moe",     "gemma4",         "glm-dsa",     "glm4moe",
    "gpt-oss",    "granitehybrid", "granitemoe",     "grok",           "grovemoe",    "hunyuan-moe",
    "hy_v3",      "jamba",         "kimi-k3",        "kimi-linear",    "laguna",      "lfm2moe",
    "llada-moe",  "llama",         "llama4",         "mimo2",          "minimax-01",  "minimax-m2",
    "minimax-m3", "mistral4",      "nemotron_h_moe", "nomic-bert-moe", "olmoe",       "phimoe",
    "qwen2moe",   "qwen35moe",     "qwen3moe",       "qwen3next",      "qwen3vlmoe",  "rnd1",
    "sarvam-moe", "smallthinker",  "step35",         "qwen4exp",
};

}  // namespace

bool IsMoeArchitecture(std::string_view architecture) {
  return std::find(kArchitectures.begin(), kArchitectures.end(), architecture) !=
         kArchitectures.end();
}

Error UnknownArchitecture(const std::string& where, std::string_view architecture) {
  return {
      Code::kUnsupported,
      Cat(where, ": general.architecture: expected one with experts that llama.cpp v0.5.0 has, ",
          "found ", Quoted(architecture)),
      "what else depends on its number of experts is not known; quantize writes it whole"};
}

}  // namespace shard
