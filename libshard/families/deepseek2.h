// The runtime's architecture "deepseek2": multi-head latent attention (MLA) with DeepSeek's
// experts. DeepSeek-V2, V3, Kimi-K2 and GLM-4.7-Flash are variants of it.
#pragma once

#include <string_view>

#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"

namespace moepack {

struct Deepseek2 {
  std::string_view architecture = "deepseek2";
  // An indexer picks the keys for attention ("deepseek32", "glm-dsa").
  bool indexer = false;
  bool selection_bias = false;  // e_score_correction_bias in every layer with experts
  bool one_gate_up = false;     // gate and up of packed experts stay one tensor
};

// Rows, sizes, keys and checks. Reads the config once to know which projections queries have.
// kUnsupported for models that the runtime cannot load or would compute wrongly.
Result<HfFamily> MakeDeepseek2(const MoeModel& model, const Deepseek2& variant);

// Latent attention in families that have more than that: its sizes, rows and keys.
struct Mla {
  uint32_t rank = 0;        // of the latent keys and values
  uint32_t query_rank = 0;  // 0: queries are projected directly
  uint32_t nope = 0, rope = 0, value = 0;
};
Result<Mla> ReadMla(const HfConfig& config);
// For HfFamily::heads.
Status ReadMlaHeads(const HfConfig& config, HeadShape& shape);

struct MlaRows {
  std::string at;           // "layers.{L}.self_attn."
  const char* output;       // below it: "o_proj"
  bool query_rank = false;  // queries have a low rank
  BlockChoice blocks = {};  // those with latent attention
};
// Projections and norms, without the norm before them.
void AddMlaRows(HfFamily& family, const MlaRows& rows);
void AddMlaKeys(const Mla& mla, const HfShape& shape, ArchKeys& keys);

namespace deepseek_v3 {
// Kimi-K2.5 is converted in the same way.
Result<GgufModel> Convert(const MoeModel& model, const ConvertOptions& options);
}  // namespace deepseek_v3

// What the runtime must know of latent attention.
void FillDeepseek2(SpecKeys& keys, ModelSpec& spec);
// The same with an indexer. As long as there are no more keys than the indexer picks, it picks all
// of them, and attention is that of DeepSeek-V3. Longer contexts do not run here.
void FillDeepseek2Short(SpecKeys& keys, ModelSpec& spec);

// Kimi's checkpoints include a copy of DeepSeek's config class.
inline constexpr std::string_view kKimi =
    R"({"rope_theta": 10000, "rms_norm_eps": 1e-6, "n_shared_experts": 1})";

}  // namespace moepack
