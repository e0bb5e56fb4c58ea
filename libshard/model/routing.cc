#include "libshard/model/routing.h"

#include <algorithm>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// The ids are those of llama.cpp's llama_expert_gating_func_type. dots.llm1 gives the selection
// method, noaux_tc, instead of the function.
constexpr GatingRow kGatings[] = {
    {Gating::kSoftmax, "softmax", "", 1},
    {Gating::kSigmoid, "sigmoid", "noaux_tc", 2},
    {Gating::kSoftmaxAfterTopK, "softmax-after-topk", "", 3, /*after_top_k=*/true},
    {Gating::kSigmoidAfterTopK, "sigmoid-after-topk", "", kNoGgufId, /*after_top_k=*/true},
    {Gating::kSqrtSoftplus, "sqrtsoftplus", "", 4},
};

template <class Matches>
std::optional<Gating> Find(Matches matches) {
  const auto found = std::find_if(std::begin(kGatings), std::end(kGatings), matches);
  if (found == std::end(kGatings)) return std::nullopt;
  return found->gating;
}

}  // namespace

const GatingRow& RowOf(Gating gating) {
  return *std::find_if(std::begin(kGatings), std::end(kGatings),
                       [&](const GatingRow& row) { return row.gating == gating; });
}

std::string GatingNames() {
  std::string names;
  for (const GatingRow& row : kGatings) names += Cat(names.empty() ? "" : ", ", row.name);
  return names;
}

std::string GatingIds() {
  std::string names;
  for (const GatingRow& row : kGatings) {
    if (row.gguf_id == kNoGgufId) continue;
    names += Cat(names.empty() ? "" : ", ", row.name, " (", row.gguf_id, ")");
  }
  return names;
}

std::optional<Gating> FindGating(std::string_view name) {
  return Find([&](const GatingRow& row) { return row.name == name; });
}

std::optional<Gating> FindConfigGating(std::string_view text) {
  const std::string name = Lower(text);
  if (name.empty()) return std::nullopt;
  return Find([&](const GatingRow& row) { return row.name == name || row.alias == name; });
}

std::optional<Gating> FindGgufGating(uint64_t id) {
  if (id == kNoGgufId) return std::nullopt;
  return Find([&](const GatingRow& row) { return row.gguf_id == id; });
}

Routing Overlay(Routing usual, const StatedRouting& stated) {
  usual.gating = stated.gating.value_or(usual.gating);
  usual.normalize = stated.normalize.value_or(usual.normalize);
  if (stated.scale) usual.scale = stated.scale;
  usual.groups = stated.groups.value_or(usual.groups);
  usual.groups_used = stated.groups_used.value_or(usual.groups_used);
  return usual;
}

float ScaleOf(const Routing& routing) {
  const double scale = routing.scale.value_or(1);
  // llama.cpp takes a scale of 0 for none (build_moe_ffn).
  return scale == 0 ? 1.0f : static_cast<float>(scale);
}

}  // namespace moepack
