// "stages" of plan.json, which distribution.json also has:
//
//   "stages": [{"layers": "0-15"}, {"layers": "16-31"}]
#include <nlohmann/json.hpp>

#include "libshard/base/limits.h"
#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

Result<StageRange> ReadStage(const std::string& where, const Json& value) {
  SHARD_CHECK(CheckObject(where, value));
  const JsonFields fields(value, where);
  SHARD_TRY(const std::string text, fields.String("layers"));
  SHARD_TRY(const ExpertIds layers, ParseIds(where + ": layers", text, kMaxLayers - 1));
  if (layers.empty() || layers.back() - layers.front() + 1 != layers.size()) {
    return fields.Wrong("layers", "one range of layers, such as \"0-15\"");
  }
  return StageRange{layers.front(), layers.back()};
}

}  // namespace

Json StagesToJson(const Plan& plan) {
  Json stages = Json::array();
  for (const StageRange& stage : plan.stages) {
    const std::string first = std::to_string(stage.first_layer);
    const bool one = stage.first_layer == stage.last_layer;
    stages.push_back({{"layers", one ? first : Cat(first, "-", stage.last_layer)}});
  }
  return stages;
}

Status CheckStages(const std::string& where, const Plan& plan) {
  uint32_t next = 0;
  for (size_t i = 0; i < plan.stages.size(); ++i) {
    const StageRange& stage = plan.stages[i];
    // A gap or an overlap would leave a layer on no stage, or on two.
    if (stage.first_layer == next && stage.last_layer >= stage.first_layer) {
      next = stage.last_layer + 1;
      continue;
    }
    return Error{Code::kCorrupt, Cat(where, ": stage ", i, ": layers: expected a range from ", next,
                                     " on, found ", stage.first_layer, "-", stage.last_layer)};
  }
  if (plan.stages.empty() || plan.layers.rbegin()->first < next) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": stages: expected ranges up to layer ",
                                   plan.layers.rbegin()->first, ", found ranges up to ", next - 1)};
}

Status ReadStages(const std::string& path, const JsonFields& fields, Plan& plan) {
  if (!fields.Has("stages")) return Ok();
  SHARD_TRY(const Json* stages, fields.Array("stages"));
  for (const Json& entry : *stages) {
    SHARD_TRY(const StageRange stage, ReadStage(Cat(path, ": stage ", plan.stages.size()), entry));
    plan.stages.push_back(stage);
  }
  return CheckStages(path, plan);
}

}  // namespace moepack
