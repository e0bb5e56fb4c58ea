#include "libshard/convert/base_keys.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>

#include "libshard/base/text/text.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_routing.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// Returns null for an architecture whose graph does not route by a rule that we know.
const GraphRouting* GraphOf(std::string_view architecture) {
  const GgufArchitecture* row = FindArchitecture(architecture);
  return row != nullptr && row->routing ? &*row->routing : nullptr;
}

Error Differs(const HfConfig& config, ConfigKeys keys, std::string_view expected,
              std::string_view found) {
  const std::optional<HfConfig::Field> field = config.Find(keys);
  return {Code::kUnsupported,
          Cat(config.where(), ": ", field ? field->path : *keys.begin(), ": expected ", expected,
              ", which is what the runtime does for this architecture, found ", found),
          kNoGgufHint};
}

const char* Spelled(bool value) { return value ? "true" : "false"; }

}  // namespace

void AddGroupKeys(const RoutingToWrite& model, ArchKeys& keys) {
  const Routing& routing = model.routing;
  if (model.stated.groups || routing.groups > 0) keys.U32("expert_group_count", routing.groups);
  if (model.stated.groups_used || routing.groups_used > 0) {
    keys.U32("expert_group_used_count", routing.groups_used);
  }
}

void AddGatingKey(const RoutingToWrite& model, ArchKeys& keys) {
  const GraphRouting* graph = GraphOf(keys.architecture());
  const bool read = graph != nullptr && graph->reads_gating;
  const GatingRow& row = RowOf(model.routing.gating);
  const bool needed = read && row.gating != Gating::kSoftmax;
  if (row.gguf_id == kNoGgufId || (!model.stated.gating && !needed)) return;
  keys.U32("expert_gating_func", row.gguf_id);
}

void AddWeightKeys(const Routing& routing, ArchKeys& keys) {
  const GraphRouting* graph = GraphOf(keys.architecture());
  if (graph == nullptr || !graph->reads_weights) return;
  const auto scale = static_cast<float>(routing.scale.value_or(1));
  if (scale != 1 || !graph->omits_unit_scale) keys.F32("expert_weights_scale", scale);
  if (routing.normalize || graph->writes_false_norm) {
    keys.Bool("expert_weights_norm", routing.normalize);
  }
}

Status CheckGraphRouting(const HfConfig& config, const Routing& model, const GgufMetadata& metadata,
                         std::vector<std::string>& warnings) {
  SHARD_TRY(const Routing graph, RoutingOfGguf(config.where(), metadata));
  if (graph.gating != model.gating) {
    return Differs(config, fields::kGating, GatingName(graph.gating), GatingName(model.gating));
  }
  // The weights of a softmax over the chosen experts already sum to 1.
  const bool sums_to_one = model.gating == Gating::kSoftmaxAfterTopK;
  if (graph.normalize != model.normalize && !sums_to_one) {
    return Differs(config, fields::kNormalize, Spelled(graph.normalize), Spelled(model.normalize));
  }
  if (ScaleOf(graph) != ScaleOf(model)) {
    return Differs(config, fields::kScale, Cat(ScaleOf(graph)), Cat(ScaleOf(model)));
  }
  if (graph.groups > 1 && graph.group_score != model.group_score) {
    warnings.push_back(Cat(config.where(), ": n_group: expected 1, found ", graph.groups,
                           "; the runtime chooses groups by the sum of their two best experts, ",
                           "this model by the best one, so that some tokens are routed "
                           "differently"));
  }
  return Ok();
}

namespace {

constexpr uint32_t kMaxVocabulary = 1u << 24;
constexpr uint64_t kMaxExperts = 1024;  // llama.cpp's LLAMA_MAX_EXPERTS
// A key, the fields it comes from, and whether the runtime refuses a file without it.
struct CountRow {
  const char* key;
  ConfigKeys fields;
  bool required = false;
  ConfigKeys (*choose)(const HfConfig& config) = nullptr;  // among several fields
};

const CountRow kCounts[] = {
    {"context_length", fields::kContext, true},
    {"embedding_length", fields::kHiddenSize, true},
    {.key = "feed_forward_length", .fields = {}, .choose = fields::DenseWidth},
    {"attention.head_count", fields::kHeads, true},
    {"attention.head_count_kv", fields::kKeyHeads},
    {"expert_count", fields::kExperts},
};
const CountRow kUsedExperts[] = {{"expert_used_count", fields::kTopK}};
// These keys come after those of routing groups, as in the files of llama.cpp's converter.
const CountRow kHeadSizes[] = {
    {"attention.key_length", fields::kHeadSize},
    {"attention.value_length", fields::kHeadSize},
};

Status AddCounts(const HfConfig& config, std::span<const CountRow> rows, ArchKeys& keys) {
  for (const CountRow& row : rows) {
    const ConfigKeys fields = row.choose == nullptr ? row.fields : row.choose(config);
    SHARD_TRY(const std::optional<uint32_t> count, config.FindSameU32(fields));
    // The runtime refuses a count of zero.
    if (count == 0u) return config.Wrong(*config.Find(fields), "at least 1");
    if (count) keys.U32(row.key, *count);
    if (!count && row.required) return config.Missing(fields, "a whole number");
  }
  return Ok();
}

}  // namespace

Error CannotHold(const HfConfig& config, const std::string& what) {
  return {Code::kUnsupported, Cat(config.where(), ": ", what), kNoGgufHint};
}

Result<HfShape> ReadShape(const HfConfig& config) {
  HfShape shape;
  SHARD_TRY(shape.layers, config.U32(fields::kLayers));
  SHARD_TRY(shape.hidden, config.U32(fields::kHiddenSize));
  SHARD_TRY(shape.heads, config.U32(fields::kHeads));
  SHARD_TRY(const auto kv_heads, config.FindU32(fields::kKeyHeads));
  shape.kv_heads = kv_heads.value_or(shape.heads);
  SHARD_TRY(shape.vocabulary, config.U32(fields::kVocabulary));
  if (shape.vocabulary > kMaxVocabulary) {
    return config.Wrong(*config.Find(fields::kVocabulary), Cat("at most ", kMaxVocabulary));
  }
  if (shape.heads == 0 || shape.layers == 0) {
    const bool no_heads = shape.heads == 0;
    return Error{Code::kCorrupt, Cat(config.where(), no_heads ? ": attention heads" : ": layers",
                                     ": expected at least one, found 0")};
  }
  if (shape.kv_heads == 0 || shape.heads % shape.kv_heads != 0) {
    return config.Wrong(*config.Find(fields::kKeyHeads),
                        Cat("a divisor of the ", shape.heads, " attention heads"));
  }
  SHARD_TRY(const auto head_size, config.FindU32(fields::kHeadSize));
  shape.head_size = head_size.value_or(shape.hidden / shape.heads);
  return shape;
}

Status AddEpsilon(const HfConfig& config, ConfigKeys fields, std::string_view key, ArchKeys& keys) {
  SHARD_TRY(const float epsilon, config.F32(fields));
  if (!(epsilon > 0)) return config.Wrong(*config.Find(fields), "a number above 0");
  keys.F32(key, epsilon);
  return Ok();
}

Status AddBaseKeys(const HfConfig& config, const RoutingToWrite& routing, uint32_t blocks,
                   ArchKeys& keys, const OwnKeys& own) {
  keys.U32("block_count", blocks);
  SHARD_CHECK(AddCounts(config, kCounts, keys));
  if (!own.used_experts) SHARD_CHECK(AddCounts(config, kUsedExperts, keys));
  AddGroupKeys(routing, keys);
  SHARD_CHECK(AddCounts(config, kHeadSizes, keys));
  if (!own.epsilon)
    SHARD_CHECK(AddEpsilon(config, fields::kEpsilon, "attention.layer_norm_rms_epsilon", keys));
  SHARD_TRY(const std::optional<bool> causal, config.FindBool({"is_causal"}));
  if (causal && !*causal) keys.Bool("attention.causal", false);
  AddGatingKey(routing, keys);
  return Ok();
}

Status CheckWord(const HfConfig& config, ConfigKeys keys,
                 const std::vector<std::string_view>& words) {
  const std::optional<HfConfig::Field> field = config.Find(keys);
  const auto is = [&](std::string_view word) { return *field->value == word; };
  if (!field || std::any_of(words.begin(), words.end(), is)) return Ok();
  return Error{Code::kUnsupported,
               Cat(config.where(), ": ", field->path, ": expected ", words.front(),
                   ", the only one that the runtime has, found ", DescribeJson(*field->value)),
               kNoGgufHint};
}

namespace {

// Of all layers; 0 if it is not given.
uint64_t MostUsed(std::string_view architecture, const GgufMetadata& metadata) {
  const GgufValue* const value = metadata.Find(Cat(architecture, ".expert_used_count"));
  const auto used = value == nullptr ? std::nullopt : value->AsUints();
  return used && !used->empty() ? *std::max_element(used->begin(), used->end()) : 0;
}

}  // namespace

Status CheckExpertCounts(const HfConfig& config, std::string_view architecture,
                         const GgufMetadata& metadata) {
  const auto count = [&](const char* name) {
    return metadata.Uint(Cat(architecture, ".", name)).value_or(0);
  };
  const uint64_t experts = count("expert_count"), used = MostUsed(architecture, metadata);
  const uint64_t groups = count("expert_group_count"), chosen = count("expert_group_used_count");
  const auto refuse = [&](const char* what, const std::string& expected, uint64_t found) {
    return Error{
        Code::kUnsupported,
        Cat(config.where(), ": ", what, ": expected ", expected,
            ", since the runtime stops the process that loads anything else, found ", found),
        kNoGgufHint};
  };
  if (experts > kMaxExperts) return refuse("experts", Cat("at most ", kMaxExperts), experts);
  if (used == 0 || used > experts) {
    return refuse("experts per token", Cat("1 to ", experts), used);
  }
  if (groups >= experts) return refuse("n_group", Cat("fewer than ", experts), groups);
  if (groups <= 1) return Ok();
  if (experts % groups != 0) return refuse("n_group", Cat("a divisor of ", experts), groups);
  if (chosen > 0 && chosen < groups) return Ok();
  return refuse("topk_group", Cat("1 to ", groups - 1), chosen);
}

Result<uint32_t> RotatedPart(const HfConfig& config, uint32_t head_size) {
  SHARD_TRY(const HfConfig rope, config.Rope());
  SHARD_TRY(const std::optional<float> part, rope.FindF32(fields::kRotatedPart));
  if (!part) return head_size;
  if (*part >= 0 && *part <= 1) return static_cast<uint32_t>(double{*part} * head_size);
  return rope.Wrong(*rope.Find(fields::kRotatedPart), "a number from 0 to 1");
}

Result<uint32_t> RotatedSize(const HfConfig& config, uint32_t head_size) {
  SHARD_TRY(const std::optional<uint32_t> size, config.FindU32({"rotary_dim"}));
  if (size) return *size;
  return RotatedPart(config, head_size);
}

Status CheckSquareHeads(const HfConfig& config, const HfShape& shape) {
  if (uint64_t{shape.head_size} * shape.heads == shape.hidden) return Ok();
  return Error{Code::kUnsupported,
               Cat(config.where(), ": size of a head: expected hidden size / heads (", shape.hidden,
                   " / ", shape.heads, "), the only one that the runtime knows for this ",
                   "architecture, found ", shape.head_size),
               kNoGgufHint};
}

}  // namespace moepack
