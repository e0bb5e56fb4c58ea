#include "libshard/convert/routing_keys.h"

#include "libshard/base/text/text.h"
#include "libshard/convert/base_keys.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_routing.h"

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
  keys.F32("expert_weights_scale", static_cast<float>(routing.scale.value_or(1)));
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

}  // namespace moepack
