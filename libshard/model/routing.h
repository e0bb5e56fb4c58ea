// How a router picks and weighs experts: the one description that families, config.json, GGUF
// metadata, conversion, manifests and the runtime share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace moepack {

// What turns the logits of a router into weights. The "after" functions see the chosen logits
// alone; with them experts are chosen by their logits.
enum class Gating : uint8_t {
  kSoftmax,
  kSigmoid,
  kSoftmaxAfterTopK,
  kSigmoidAfterTopK,
  kSqrtSoftplus,
};

// Every name and number of a function: one row each.
struct GatingRow {
  Gating gating;
  std::string_view name;     // in distribution.json, --json, family files and config.json
  std::string_view alias;    // what else config.json calls it; "" for nothing
  uint32_t gguf_id;          // llama.cpp's expert_gating_func; kNoGgufId for none
  bool after_top_k = false;  // of the chosen logits alone
};
inline constexpr uint32_t kNoGgufId = 0;

const GatingRow& RowOf(Gating gating);
inline std::string_view GatingName(Gating gating) { return RowOf(gating).name; }

// "softmax, sigmoid, ..."
std::string GatingNames();
// "softmax (1), sigmoid (2), ..."
std::string GatingIds();
// By our name.
std::optional<Gating> FindGating(std::string_view name);
// As config.json spells it: either name, in any case.
std::optional<Gating> FindConfigGating(std::string_view text);
std::optional<Gating> FindGgufGating(uint64_t id);

// Routing groups are runs of consecutive experts. What a group's score is:
enum class GroupScore : uint8_t {
  kTwoBest,  // the sum of its two best experts (DeepSeek-V3, all graphs of llama.cpp)
  kBest,     // its best expert (DeepSeek-V2)
};

enum class RouterBias : uint8_t {
  kNone,
  kLogits,     // added to the logits: it chooses and weighs
  kSelection,  // added to what the function gives, for the choice alone
};

struct Routing {
  uint32_t expert_count = 0;  // of a layer
  uint32_t top_k = 0;         // 0: unknown
  Gating gating = Gating::kSoftmax;
  bool normalize = true;             // the chosen weights are divided by their sum
  std::optional<double> scale = {};  // of the chosen weights; none, 0 and 1 change nothing
  uint32_t groups = 0;               // routing groups; 0 and 1: none
  uint32_t groups_used = 0;          // those that a token may pick from
  GroupScore group_score = GroupScore::kTwoBest;
  RouterBias bias = RouterBias::kNone;
};

// The fields that a config or metadata gives; the others are the family's.
struct StatedRouting {
  std::optional<Gating> gating;
  std::optional<bool> normalize;
  std::optional<double> scale;
  std::optional<uint32_t> groups, groups_used;
};

// `usual` with what is stated laid over it.
Routing Overlay(Routing usual, const StatedRouting& stated);

// The factor of the chosen weights: 1 where `scale` changes nothing.
float ScaleOf(const Routing& routing);

}  // namespace moepack
