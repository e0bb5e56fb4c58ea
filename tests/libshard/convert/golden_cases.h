// How each listing of golden/convert and golden/convert-2026 is made. A test checks that no listing
// is left out.
#pragma once

#include <cctype>
#include <ostream>
#include <string>
#include <string_view>

namespace moepack::golden {

// Made by llama.cpp's converter, listed with all keys.
struct ConvertedCase {
  const char* family;
  const char* listing = "expected.gguf.json";
  // Of everything that is not F32 whatever the type; "": what conversion gives without a recipe.
  const char* type = "bf16";
  bool mtp = true;           // false: --no-mtp
  const char* warning = "";  // part of the first one
  const char* another = "";  // part of the second
  // tokenizer.ggml.pre, where the listing's was set by hand: the vocabulary is too small for the
  // family's own.
  const char* pre = "";
  const char* without = "";  // a key that llama.cpp's converter takes from a file of its own
};

inline constexpr const char* kExactListing = "expected-f32.gguf.json";
inline constexpr const char* kNoMtpListing = "expected-no-mtp.gguf.json";

inline constexpr ConvertedCase kConverted[] = {
    {.family = "qwen3-moe"},
    {.family = "qwen2-moe"},
    {.family = "qwen2-moe", .listing = "expected-q8_0.gguf.json", .type = "q8_0"},
    {.family = "qwen3.5-moe", .warning = "left out 14 vision tensors"},
    {.family = "qwen3.5-moe",
     .listing = kNoMtpListing,
     .mtp = false,
     .warning = "left out 14 vision tensors"},
    {.family = "deepseek-v3", .warning = "left out 76 tensors of blocks for "},
    {.family = "deepseek-v3",
     .listing = kExactListing,
     .type = "f32",
     .warning = "left out 76 tensors of blocks for "},
    {.family = "kimi-k2.5", .warning = "left out 15 vision tensors"},
    {.family = "kimi-k2.5",
     .listing = kExactListing,
     .type = "f32",
     .warning = "left out 15 vision tensors"},
    {.family = "gpt-oss"},
    {.family = "glm-4.5"},
    {.family = "glm-4.5", .listing = kNoMtpListing, .mtp = false},
    {.family = "llama-4", .warning = "left out 22 vision tensors"},
    {.family = "mixtral"},
    {.family = "ling-3", .pre = "bailingmoe2"},
    {.family = "ling-3", .listing = kNoMtpListing, .mtp = false, .pre = "bailingmoe2"},
    {.family = "mistral-4", .warning = "left out 15 vision tensors", .pre = "tekken"},
    {.family = "deepseek-v4",
     .type = "",
     .warning = "of blocks for multi-token prediction",
     .pre = "deepseek-v3",
     .without = "tokenizer.chat_template"},
    {.family = "kimi-k3",
     .warning = "left out 5 vision tensors",
     .pre = "kimi-k2",
     .without = "tokenizer.chat_template"},
    {.family = "minimax-m3", .warning = "left out 27 vision tensors"},
    {.family = "cohere2moe", .pre = "command-r"},
    {.family = "nemotron-3-puzzle",
     .warning = "left out 26 tensors of blocks for ",
     .pre = "pixtral"},
    {.family = "qwen3.8-flash-next",
     .warning = "left out 21 vision tensors",
     .another = "left out 31 tensors of blocks for "},
    {.family = "glm-5.2"},
    {.family = "glm-5.2", .listing = kNoMtpListing, .mtp = false},
    {.family = "granite-4-h"},
    {.family = "hy3"},
    {.family = "hy3", .listing = kNoMtpListing, .mtp = false},
    {.family = "laguna", .warning = "beta_fast and beta_slow", .pre = "laguna"},
    {.family = "lfm2-moe", .pre = "lfm2"},
    {.family = "qwen3-vl-moe", .warning = "vision tensors"},
    {.family = "exaone-moe", .pre = "exaone-moe"},
    {.family = "solar-open"},
    {.family = "afmoe", .pre = "afmoe"},
    {.family = "smallthinker"},
    {.family = "grovemoe"},
};

// Made by llama-quantize from the converter's output, listed with the keys that changed.
struct QuantizedCase {
  const char* family;
  const char* listing;
  const char* recipe;
  bool importance = false;
  // The source is in FP8 or int4, and the quantizer was given a BF16 file of it, so we use one too.
  bool through_bf16 = false;
};

inline constexpr QuantizedCase kQuantized[] = {
    {"qwen3-moe", "expected-q2_k.json", "Q2_K"},
    {"qwen3-moe", "expected-q3_k_m.json", "Q3_K_M"},
    {"qwen3-moe", "expected-q4_0.json", "Q4_0"},
    {"qwen3-moe", "expected-q4_k_m.json", "Q4_K_M"},
    {"qwen3-moe", "expected-q5_k_m.json", "Q5_K_M"},
    {"qwen3-moe", "expected-q6_k.json", "Q6_K"},
    {"qwen3-moe", "expected-q8_0.json", "Q8_0"},
    {"qwen3-moe", "expected-iq4_xs.json", "IQ4_XS"},
    {"qwen3-moe", "expected-mxfp4_moe.json", "MXFP4_MOE"},
    {"qwen3-moe", "expected-q2_k-imatrix.json", "Q2_K", true},
    {"qwen3-moe", "expected-q4_k_m-imatrix.json", "Q4_K_M", true},
    {"qwen3-moe", "expected-iq4_xs-imatrix.json", "IQ4_XS", true},
    {"qwen3-moe", "expected-iq3_m-imatrix.json", "IQ3_M", true},
    {"qwen3-moe", "expected-tq1_0.json", "TQ1_0"},
    {"qwen3-moe", "expected-tq2_0.json", "TQ2_0"},
    {"qwen3-moe", "expected-iq1_s-imatrix.json", "IQ1_S", true},
    {"qwen3-moe", "expected-iq1_m-imatrix.json", "IQ1_M", true},
    {"qwen3-moe", "expected-iq3_s-imatrix.json", "IQ3_S", true},
    {"qwen3-moe", "expected-iq3_xs-imatrix.json", "IQ3_XS", true},
    {"qwen3-moe", "expected-iq3_xxs-imatrix.json", "IQ3_XXS", true},
    {"qwen3-moe", "expected-iq2_m-imatrix.json", "IQ2_M", true},
    {"qwen3-moe", "expected-iq2_s-imatrix.json", "IQ2_S", true},
    {"qwen3-moe", "expected-iq2_xs-imatrix.json", "IQ2_XS", true},
    {"qwen3-moe", "expected-iq2_xxs-imatrix.json", "IQ2_XXS", true},
    {"qwen2-moe", "expected-q4_k_m.json", "Q4_K_M"},
    {"qwen3.5-moe", "expected-q4_k_m.json", "Q4_K_M"},
    {"deepseek-v3", "expected-q4_k_m-from-f32.json", "Q4_K_M"},
    {"deepseek-v3", "expected-q4_k_m.json", "Q4_K_M", false, true},
    {"kimi-k2.5", "expected-q4_0-from-f32.json", "Q4_0"},
    {"kimi-k2.5", "expected-q4_k_m-from-f32.json", "Q4_K_M"},
    {"kimi-k2.5", "expected-q4_k_m.json", "Q4_K_M", false, true},
    {"gpt-oss", "expected-q4_k_m.json", "Q4_K_M"},
    {"gpt-oss", "expected-mxfp4_moe.json", "MXFP4_MOE"},
    {"glm-4.5", "expected-q4_k_m.json", "Q4_K_M"},
    {"llama-4", "expected-q4_k_m.json", "Q4_K_M"},
    {"mixtral", "expected-q3_k_m.json", "Q3_K_M"},
    {"mixtral", "expected-q4_k_m.json", "Q4_K_M"},
    {"mixtral", "expected-q8_0.json", "Q8_0"},
};

inline void PrintTo(const ConvertedCase& one, std::ostream* out) {
  *out << one.family << " " << one.listing;
}
inline void PrintTo(const QuantizedCase& one, std::ostream* out) {
  *out << one.family << " " << one.listing;
}

// "qwen3.5-moe", "expected-q4_k_m.json" -> "qwen3_5_moe_q4_k_m".
inline std::string CaseName(const std::string& family, const std::string& listing) {
  constexpr std::string_view kStart = "expected", kEnd = ".json";
  std::string name = family + listing.substr(kStart.size());
  name.resize(name.size() - kEnd.size());
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

}  // namespace moepack::golden
