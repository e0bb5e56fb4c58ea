// plan.json, and the two members it shares with distribution.json:
//
//   "partition": {"scheme": "contiguous", "uniform": true,
//                 "groups": [{"experts": {"*": "0-5"}, "fill": {}}, ...],
//                 "remainder": {}},
//   "overlays": [{"version": "generalists-1", "parent": null, "experts": {"0": "3,11"},
//                 "fill": [{"0": "12"}, {"0": "1"}, ...]}]
//
// plan.json may also have "expectation" (expectation.h), if the plan was made with statistics, and
// "placement" (placement.cc), which distribution.json has in "routing", and "types"
// (plan.h). Version 1.0 had at most one overlay, without parent and fill; plans that need no
// more are still written as 1.0. Members that a later minor version may add are ignored here.
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "libshard/base/files/real_path.h"
#include "libshard/base/files/unreadable.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/format_version.h"
#include "libshard/base/text/json_values.h"
#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/plan/overlay_plan.h"
#include "libshard/plan/partition.h"
#include "libshard/plan/placement.h"
#include "libshard/plan/plan.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

constexpr unsigned kPlanMajor = 1;
constexpr uint64_t kMaxPlanBytes = 256u << 20;

Result<LayerExperts> ReadExperts(const JsonFields& fields, const char* key,
                                 const LayerCounts& layers) {
  SHARD_TRY(const Json* experts, fields.Object(key));
  return LayerExpertsFromJson(Cat(fields.where(), ": ", key), *experts, layers);
}

Result<GroupPlan> ReadGroup(const std::string& where, const Json& value,
                            const LayerCounts& layers) {
  SHARD_CHECK(CheckObject(where, value));
  const JsonFields fields(value, where);
  GroupPlan group;
  SHARD_TRY(group.owned, ReadExperts(fields, "experts", layers));
  SHARD_TRY(group.fill, ReadExperts(fields, "fill", layers));
  return group;
}

Status ReadPartition(const std::string& where, const Json& value, Plan& plan) {
  const JsonFields fields(value, where);
  SHARD_TRY(plan.scheme, fields.String("scheme"));
  if (!IsLabel(plan.scheme)) return fields.Wrong("scheme", "1 to 64 of [A-Za-z0-9._-]");
  SHARD_TRY(plan.uniform, fields.Bool("uniform"));
  SHARD_TRY(const Json* groups, fields.Array("groups"));
  SHARD_CHECK(CheckGroupCount(where, plan, groups->size()));
  for (const Json& entry : *groups) {
    const std::string place = Cat(where, ": group ", plan.groups.size());
    SHARD_TRY(GroupPlan group, ReadGroup(place, entry, plan.layers));
    plan.groups.push_back(std::move(group));
  }
  SHARD_TRY(plan.remainder, ReadExperts(fields, "remainder", plan.layers));
  return Ok();
}

// Reading expands "*" once per group and overlay.
Status CheckOverlayCount(const std::string& where, size_t found, const Plan& plan) {
  uint64_t expert_count = 0;
  for (const auto& [layer, count] : plan.layers) expert_count += count;
  const uint64_t most = std::max<uint64_t>(1, kMaxPlanIds / (expert_count * plan.groups.size()));
  if (found <= most) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": expected at most ", most, " overlays for ",
                                   Plural(plan.groups.size(), "group"), ", found ", found)};
}

Status ReadOverlayFill(const JsonFields& fields, const LayerCounts& layers, OverlayPlan& overlay) {
  SHARD_TRY(const Json* fill, fields.Array("fill"));
  for (const Json& entry : *fill) {
    const std::string where = Cat(fields.where(), ": fill of group ", overlay.fill.size());
    SHARD_CHECK(CheckObject(where, entry));
    SHARD_TRY(LayerExperts experts_by_layer, LayerExpertsFromJson(where, entry, layers));
    overlay.fill.push_back(std::move(experts_by_layer));
  }
  return Ok();
}

// A fill that is empty for all groups is written as no fill, so that equal overlays have equal
// versions.
bool HasFill(const OverlayPlan& overlay) {
  return std::any_of(overlay.fill.begin(), overlay.fill.end(),
                     [](const LayerExperts& fill) { return CountIds(fill) > 0; });
}

Result<OverlayPlan> ReadOverlay(const std::string& where, const Json& value, const Plan& plan) {
  SHARD_CHECK(CheckObject(where, value));
  const JsonFields fields(value, where);
  OverlayPlan overlay;
  SHARD_TRY(overlay.version, fields.String("version"));
  if (fields.Has("parent")) {
    SHARD_TRY(overlay.parent, fields.String("parent"));
    if (overlay.parent.empty()) return fields.Wrong("parent", "a version or null");
  }
  SHARD_TRY(overlay.experts_by_layer, ReadExperts(fields, "experts", plan.layers));
  if (CountIds(overlay.experts_by_layer) == 0)
    return fields.Wrong("experts", "at least one expert id");
  if (fields.Has("fill")) SHARD_CHECK(ReadOverlayFill(fields, plan.layers, overlay));
  return overlay;
}

Status ReadOverlays(const std::string& where, const Json& value, Plan& plan) {
  SHARD_CHECK(CheckOverlayCount(where, value.size(), plan));
  for (const Json& entry : value) {
    SHARD_TRY(OverlayPlan overlay, ReadOverlay(where, entry, plan));
    plan.overlays.push_back(std::move(overlay));
  }
  return Ok();
}

// Returns only the last part of the path, because a plan must not reveal where its author keeps
// files. The name is for people; bytes that are not UTF-8 are escaped as in \xff.
std::string DirectoryName(const fs::path& root) {
  const fs::path full = AbsolutePath(root).lexically_normal();
  const std::string name = (full.has_filename() ? full : full.parent_path()).filename().string();
  return ShownUnlessUtf8(name);
}

Status CheckSameModel(const JsonFields& fields, const MoeModel& model) {
  SHARD_TRY(const Json* named, fields.Object("model"));
  const JsonFields members(*named, fields.where() + ": model");
  SHARD_TRY(const std::string found, members.String("version"));
  const std::string expected = model.Version("");
  if (found == expected) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(members.where(), ": version: expected ", expected,
                   " (the checkpoint given), found ", Quoted(found)),
               "make a new plan for this checkpoint, as `moepack help plan` says"};
}

}  // namespace

Status CheckMembers(const std::string& where, const Json& value,
                    const std::vector<std::string>& allowed) {
  SHARD_CHECK(CheckObject(where, value));
  for (const auto& [key, member] : value.items()) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    return Error{Code::kCorrupt, Cat(where, ": expected no keys but ", Join(allowed, ", "),
                                     ", found ", Quoted(key))};
  }
  return Ok();
}

Json PartitionToJson(const Plan& plan) {
  Json groups = Json::array();
  for (const GroupPlan& group : plan.groups) {
    Json entry = Json::object();
    entry["experts"] = LayerExpertsToJson(group.owned, plan.layers);
    entry["fill"] = LayerExpertsToJson(group.fill, plan.layers);
    groups.push_back(std::move(entry));
  }
  Json partition = Json::object();
  partition["scheme"] = plan.scheme;
  partition["uniform"] = plan.uniform;
  partition["groups"] = std::move(groups);
  partition["remainder"] = LayerExpertsToJson(plan.remainder, plan.layers);
  return partition;
}

Json OverlayToJson(const OverlayPlan& overlay, const LayerCounts& layers) {
  Json out = Json::object();
  out["version"] = overlay.version;
  out["parent"] = overlay.parent.empty() ? Json(nullptr) : Json(overlay.parent);
  out["experts"] = LayerExpertsToJson(overlay.experts_by_layer, layers);
  if (!HasFill(overlay)) return out;
  Json fill = Json::array();
  for (const LayerExperts& experts_by_layer : overlay.fill)
    fill.push_back(LayerExpertsToJson(experts_by_layer, layers));
  out["fill"] = std::move(fill);
  return out;
}

Json OverlaysToJson(const Plan& plan) {
  Json overlays = Json::array();
  for (const OverlayPlan& overlay : plan.overlays)
    overlays.push_back(OverlayToJson(overlay, plan.layers));
  return overlays;
}

unsigned FormatMinorOf(const Plan& plan) {
  const auto is_new = [](const OverlayPlan& overlay) {
    return !overlay.parent.empty() || HasFill(overlay);
  };
  const bool more =
      plan.overlays.size() > 1 || std::any_of(plan.overlays.begin(), plan.overlays.end(), is_new);
  return more ? 1 : 0;
}

Result<Plan> UncheckedPlanFromJson(const std::string& where, const Json& document,
                                   const LayerCounts& layers,
                                   const std::map<uint32_t, uint32_t>& top_k) {
  SHARD_CHECK(CheckObject(where, document));
  const JsonFields fields(document, where);
  Plan plan;
  plan.layers = layers;
  plan.top_k = top_k;
  SHARD_TRY(const Json* partition, fields.Object("partition"));
  SHARD_CHECK(ReadPartition(where + ": partition", *partition, plan));
  SHARD_TRY(const Json* overlays, fields.Array("overlays"));
  SHARD_CHECK(ReadOverlays(where + ": overlays", *overlays, plan));
  return plan;
}

Result<Plan> PlanFromJson(const std::string& where, const Json& document, const LayerCounts& layers,
                          const std::map<uint32_t, uint32_t>& top_k) {
  SHARD_TRY(Plan plan, UncheckedPlanFromJson(where, document, layers, top_k));
  SHARD_CHECK(CheckPlan(where, plan));
  return plan;
}

Json PlanToJson(const MoeModel& model, const Plan& plan) {
  Json document = Json::object();
  document["format"] = kPlanFormat;
  document["format_version"] = Cat(kPlanMajor, ".", FormatMinorOf(plan));
  Json& named = document["model"] = Json::object();
  named["version"] = model.Version("");
  named["family"] = model.family().name;
  named["source"] = DirectoryName(model.checkpoint().tree()->name());
  document["partition"] = PartitionToJson(plan);
  document["overlays"] = OverlaysToJson(plan);
  if (plan.expectation) document["expectation"] = ExpectationToJson(*plan.expectation);
  if (plan.placement) document["placement"] = PlacementToJson(*plan.placement);
  if (!plan.stages.empty()) document["stages"] = StagesToJson(plan);
  if (plan.types) document["types"] = TypePlanToJson(*plan.types);
  return document;
}

namespace {

// Returns false if somebody has edited the groups of a plan whose scheme follows from their number
// alone.
bool FollowsItsScheme(const Plan& plan) {
  const Result<PartitionChoice> scheme = ParsePartition(plan.scheme);
  if (!scheme || scheme->partition->by_scores) return true;
  Plan rebuilt;
  rebuilt.layers = plan.layers;
  const PartitionInput input = {.groups = static_cast<uint32_t>(plan.groups.size()), .file = ""};
  if (!scheme->partition->make(input, rebuilt)) return false;
  return std::equal(plan.groups.begin(), plan.groups.end(), rebuilt.groups.begin(),
                    [](const GroupPlan& a, const GroupPlan& b) { return a.owned == b.owned; });
}

Result<Plan> ParsePlan(const std::string& path, std::string_view text, const MoeModel& model) {
  SHARD_CHECK(CheckJsonValues(path, text, kMaxPlanValues));
  SHARD_TRY(const Json document, ParseJson(path, text));
  SHARD_CHECK(CheckObject(path, document));
  const JsonFields fields(document, path);
  SHARD_CHECK(CheckFormat(fields, kPlanFormat, kPlanMajor));
  SHARD_CHECK(CheckSameModel(fields, model));
  return PlanFileFromJson(path, document, LayerCountsOf(model), TopKOf(model));
}

// The names of a plan are given to a new distribution; one that exists may have others.
Status CheckOverlayNames(const std::string& path, const Plan& plan) {
  for (const OverlayPlan& overlay : plan.overlays) {
    const char* const expected = ExpectedOverlayName(overlay.version);
    if (expected == nullptr) continue;
    return Error{Code::kCorrupt, Cat(path, ": overlays: version: expected ", expected, ", found ",
                                     Quoted(overlay.version))};
  }
  return Ok();
}

}  // namespace

Result<Plan> PlanFileFromJson(const std::string& path, const Json& document,
                              const LayerCounts& layers,
                              const std::map<uint32_t, uint32_t>& top_k) {
  SHARD_CHECK(CheckObject(path, document));
  const JsonFields fields(document, path);
  SHARD_CHECK(CheckFormat(fields, kPlanFormat, kPlanMajor));
  SHARD_TRY(Plan plan, PlanFromJson(path, document, layers, top_k));
  SHARD_CHECK(CheckOverlayNames(path, plan));
  if (!FollowsItsScheme(plan)) plan.scheme = "explicit";
  if (fields.Has("expectation")) {
    SHARD_TRY(const Json* expectation, fields.Object("expectation"));
    SHARD_TRY(plan.expectation, ExpectationFromJson(Cat(path, ": expectation"), *expectation,
                                                    plan.groups.size(), plan.layers));
  }
  if (fields.Has("placement")) {
    SHARD_TRY(plan.placement, PlacementFromJson(Cat(path, ": placement"), document["placement"],
                                                plan.groups.size(), plan.layers));
  }
  SHARD_CHECK(ReadStages(path, fields, plan));
  if (fields.Has("types")) {
    SHARD_TRY(const Json* types, fields.Object("types"));
    SHARD_TRY(plan.types, TypePlanFromJson(Cat(path, ": types"), *types));
  }
  return plan;
}

Result<std::string> PlanText(const MoeModel& model, const Plan& plan) {
  const Json document = PlanToJson(model, plan);
  std::string text = WriteJson(document);
  if (text.size() > kMaxPlanBytes)
    return Unreadable("plan", "one",
                      Cat("expected at most ", kMaxPlanBytes, " bytes, found ", text.size()));
  const Result<Plan> read = ParsePlan("plan.json", text, model);
  if (!read) return Unreadable("plan", "one", read.error().message);
  if (PlanToJson(model, *read) != document)
    return Unreadable("plan", "one", "it would read another plan");
  return text;
}

Result<Plan> ReadPlanFile(const std::string& path, const MoeModel& model) {
  SHARD_TRY(const std::string text, ReadTextFile(path, kMaxPlanBytes));
  return ParsePlan(path, text, model);
}

// "stages" of plan.json, which distribution.json also has:
//
//   "stages": [{"layers": "0-15"}, {"layers": "16-31"}]

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
