// How a router selects and weighs experts. Families, config.json, GGUF metadata, conversion,
// manifests and the runtime all use this description.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moepack {

// The function that turns a router's logits into weights. The "after" functions see only the chosen
// logits, and experts are then chosen by their logits.
enum class Gating : uint8_t {
  kSoftmax,
  kSigmoid,
  kSoftmaxAfterTopK,
  kSigmoidAfterTopK,
  kSqrtSoftplus,
};

// All names and numbers of a function, one row each.
struct GatingRow {
  Gating gating;
  std::string_view name;     // in distribution.json, --json, family files and config.json
  std::string_view alias;    // what else config.json calls it; "" for nothing
  uint32_t gguf_id;          // llama.cpp's expert_gating_func; kNoGgufId for none
  bool after_top_k = false;  // sees only the chosen logits
};
inline constexpr uint32_t kNoGgufId = 0;

const GatingRow& RowOf(Gating gating);
inline std::string_view GatingName(Gating gating) { return RowOf(gating).name; }

// "softmax, sigmoid, ..."
std::string GatingNames();
// "softmax (1), sigmoid (2), ..."
std::string GatingIds();
// Finds a function by our name.
std::optional<Gating> FindGating(std::string_view name);
// Finds a function by config.json's spelling: either name, in any case.
std::optional<Gating> FindConfigGating(std::string_view text);
std::optional<Gating> FindGgufGating(uint64_t id);

// Routing groups are runs of consecutive experts. How a group is scored:
enum class GroupScore : uint8_t {
  kTwoBest,  // the sum of its two best experts (DeepSeek-V3, all graphs of llama.cpp)
  kBest,     // its best expert (DeepSeek-V2)
};

enum class RouterBias : uint8_t {
  kNone,
  kLogits,     // added to the logits, so it affects choice and weights
  kSelection,  // added to the function's result, only for the choice
};

struct Routing {
  uint32_t expert_count = 0;  // of a layer
  uint32_t top_k = 0;         // 0: unknown
  Gating gating = Gating::kSoftmax;
  bool normalize = true;  // the chosen weights are divided by their sum
  // a factor of the chosen weights; no value, 0 and 1 change nothing
  std::optional<double> scale = {};
  uint32_t groups = 0;       // routing groups; 0 and 1: none
  uint32_t groups_used = 0;  // how many of them a token may use
  GroupScore group_score = GroupScore::kTwoBest;
  RouterBias bias = RouterBias::kNone;
};

// The fields that a config or metadata states. The family determines the others.
struct StatedRouting {
  std::optional<Gating> gating;
  std::optional<bool> normalize;
  std::optional<double> scale;
  std::optional<uint32_t> groups, groups_used;
};

// Returns `usual` with the stated fields replaced.
Routing Overlay(Routing usual, const StatedRouting& stated);

// The factor of the chosen weights: 1 if `scale` changes nothing.
float ScaleOf(const Routing& routing);

}  // namespace moepack
