#include "libshard/model/gguf_routing.h"

#include <algorithm>
#include <array>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_experts.h"
#include "libshard/model/gguf_keys.h"

namespace moepack {
namespace {

constexpr const char* kGatingKey = "expert_gating_func";
constexpr const char* kNormKey = "expert_weights_norm";
constexpr const char* kScaleKey = "expert_weights_scale";
constexpr double kMaxScale = 1e9;

constexpr std::array<std::string_view, 14> kKnownKeys = {
    "expert_count",
    "expert_used_count",
    "expert_group_count",
    "expert_group_used_count",
    "expert_feed_forward_length",
    "expert_shared_feed_forward_length",
    "expert_shared_count",
    kScaleKey,
    kNormKey,
    kGatingKey,
    "expert_latent_length",
    "expert_chunk_feed_forward_length",
    "experts_per_group",
    "expert_group_scale",
};

// Returns no value if the key is absent or says "none".
Result<std::optional<Gating>> ReadGating(const GgufKeys& keys) {
  SHARD_TRY(const uint32_t id, keys.Number(kGatingKey, UINT32_MAX));
  const std::optional<Gating> gating = FindGgufGating(id);
  if (gating || id == kNoGgufId) return gating;
  Error error = keys.Wrong(kGatingKey, GatingIds());
  error.code = Code::kUnsupported;
  return error;
}

Result<Gating> DefaultGating(const GgufKeys& keys, const GraphRouting& graph) {
  if (graph.sigmoid.empty()) return graph.gating;
  SHARD_TRY(const uint32_t blocks, keys.Number("block_count", kMaxLayers));
  SHARD_TRY(const uint32_t vocabulary, keys.Vocabulary());
  return IsAmong(graph.sigmoid, blocks, vocabulary) ? Gating::kSigmoid : graph.gating;
}

std::optional<std::string> GatingWarning(const GgufKeys& keys, const GraphRouting* graph) {
  if (graph == nullptr) {
    return Cat(keys.where(), ": architecture ", Quoted(keys.architecture()),
               ": how it picks experts is not known here; softmax is assumed");
  }
  if (!graph->needs_gating) return std::nullopt;
  const GatingRow& row = RowOf(graph->gating);
  return Cat(keys.where(), ": key ", Quoted(keys.Key(kGatingKey)), ": expected ", row.gguf_id, " (",
             row.name, "), found none: llama.cpp aborts without it");
}

Status ReadWeights(const GgufKeys& keys, StatedRouting& out) {
  if (const GgufValue* norm = keys.Find(kNormKey)) {
    if (!norm->AsBool()) return keys.Wrong(kNormKey, "a bool");
    out.normalize = norm->AsBool();
  }
  if (const GgufValue* scale = keys.Find(kScaleKey)) {
    const auto number = scale->AsFloat();
    if (!number || !(*number >= 0 && *number < kMaxScale)) {
      return keys.Wrong(kScaleKey, "a number from 0 to 10^9");
    }
    // llama.cpp takes 0 for "not scaled".
    if (*number != 0) out.scale = number;
  }
  return Ok();
}

}  // namespace

Result<StatedRouting> ReadGgufRouting(const std::string& where, const GgufMetadata& metadata,
                                      std::vector<std::string>& warnings) {
  const GgufKeys keys(where, metadata);
  const GgufArchitecture* architecture = FindArchitecture(keys.architecture());
  const GraphRouting* graph =
      architecture != nullptr && architecture->routing ? &*architecture->routing : nullptr;
  StatedRouting out;
  // llama.cpp's build_moe_ffn chooses groups in every graph whose file has these keys.
  SHARD_TRY(out.groups, keys.Number("expert_group_count", kMaxModelCount));
  SHARD_TRY(out.groups_used, keys.Number("expert_group_used_count", kMaxModelCount));
  SHARD_TRY(const std::optional<Gating> gating, ReadGating(keys));
  if (graph != nullptr) {
    out.gating = graph->gating;
    out.normalize = graph->normalize;
  }
  if (graph == nullptr || graph->reads_weights) SHARD_CHECK(ReadWeights(keys, out));
  // Such a graph uses its own function, whatever the file says.
  if (graph != nullptr && !graph->reads_gating) return out;
  if (gating) {
    out.gating = gating;
    return out;
  }
  if (graph != nullptr) {
    SHARD_TRY(out.gating, DefaultGating(keys, *graph));
  }
  if (const auto warning = GatingWarning(keys, graph)) warnings.push_back(*warning);
  return out;
}

Result<Routing> RoutingOfGguf(const std::string& where, const GgufMetadata& metadata) {
  std::vector<std::string> warnings;
  SHARD_TRY(const StatedRouting stated, ReadGgufRouting(where, metadata, warnings));
  return Overlay(GgufFamily().routing, stated);
}

bool IsKnownExpertKey(std::string_view name) {
  return std::find(kKnownKeys.begin(), kKnownKeys.end(), name) != kKnownKeys.end();
}

Status CheckExpertKeys(const std::string& where, const GgufMetadata& metadata) {
  const std::string start = metadata.Architecture() + ".";
  for (const GgufEntry& entry : metadata.entries()) {
    const std::string_view key = entry.key;
    if (!key.starts_with(start)) continue;
    const std::string_view name = key.substr(start.size());
    if (name.find("expert") == std::string_view::npos || IsKnownExpertKey(name)) continue;
    return Error{Code::kUnsupported,
                 Cat(where, ": key ", Quoted(key), ": expected one of ",
                     Join(std::vector<std::string>(kKnownKeys.begin(), kKnownKeys.end()), ", "),
                     ", found a name that is not known here"),
                 "a key about experts may say how they are picked"};
  }
  return Ok();
}

}  // namespace moepack
