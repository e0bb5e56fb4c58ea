// The sections of distribution.json but "model" (model_record.cc), those of the plan
// (libshard/plan), "quality" (quality.cc) and the files (manifest_bundles.cc); and what stands
// before and after the bundles.
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/plan/placement.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/unknown_fields.h"

namespace moepack::manifest {
namespace {

// Of the format, since distributions can be refitted and calibrated.
constexpr unsigned kRefitMinor = 2, kCalibratedMinor = 3;

unsigned MinorOf(const Manifest& manifest) {
  if (manifest.calibrated) return kCalibratedMinor;
  return manifest.refit ? kRefitMinor : FormatMinorOf(manifest.plan);
}

Result<std::string> ReadReplica(const JsonFields& fields, const char* name) {
  SHARD_TRY(std::string replica, fields.String(name));
  return replica.empty() ? replica : HexField(fields, name, 16);
}

constexpr Field<Versions> kVersionFields[] = {
    {"model", AsHex<&Versions::model, 16>},
    {"shard", AsHex<&Versions::shard, 16>},
    {"replica", As<&Versions::replica, ReadReplica>},
    {"refit", AsHex<&Versions::refit, 16>, Presence::kOptional},
};

Result<std::vector<std::string>> ReadCommand(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* words, fields.Array(name));
  std::vector<std::string> command;
  for (const Json& word : *words) {
    if (!word.is_string()) return fields.Wrong(name, "an array of strings");
    command.push_back(word.get<std::string>());
  }
  return command;
}

// After the name of the tool.
constexpr Field<ManifestHead> kToolFields[] = {
    {"version", AsText<&ManifestHead::tool_version>, Presence::kRequired, Proof::kNone},
    {"recipe", InMember<&ManifestHead::recipe, AsText<&RecipeRecord::name>>, Presence::kOptional},
    {"imatrix", InMember<&ManifestHead::recipe, AsObject<kImatrixFields>>, Presence::kOptional},
    {"command", As<&ManifestHead::command, ReadCommand>, Presence::kDefaulted, Proof::kNone},
    {"created", AsCount<&ManifestHead::created, kMaxFileBytes>, Presence::kOptional, Proof::kNone},
};

// Which parts are there, as the last fields before "bundles".
constexpr Field<ManifestHead> kPartsFields[] = {
    {"complete", AsFlag<&ManifestHead::complete>, Presence::kDefaulted, Proof::kNone},
    {"without_assets", AsFlag<&ManifestHead::without_assets>, Presence::kOptional, Proof::kRule},
};

// Refuses other routing rules instead of ignoring them, because a node that masks by another rule
// computes something else.
Status CheckRules(const JsonFields& fields) {
  struct Rule {
    const char *key, *value;
  };
  for (const Rule& rule : {Rule{"policy", "masked-group"}, Rule{"eligible", "group+fill+overlay"},
                           Rule{"mask_point", "logits"}}) {
    SHARD_TRY(const std::string found, fields.String(rule.key));
    if (found == rule.value) continue;
    return Error{Code::kUnsupported, Cat(fields.where(), ": ", rule.key, ": expected \"",
                                         rule.value, "\", found ", Quoted(found))};
  }
  return Ok();
}

// Rules other than the table's are kept as they are.
Status ReadPlacement(const JsonFields& routing, Plan& plan) {
  SHARD_TRY(const Json* placement, routing.Object("placement"));
  const std::string where = Cat(routing.where(), ": placement");
  SHARD_TRY(const std::string rule, JsonFields(*placement, where).String("rule"));
  if (rule != kPlacementRule) return Ok();
  SHARD_TRY(plan.placement, PlacementFromJson(where, *placement, plan.groups.size(), plan.layers));
  return Ok();
}

Status CheckTopK(const JsonFields& fields, const ModelRecord& model) {
  ExpertIds layers;
  for (const auto& [layer, count] : model.moe_layers) layers.push_back(layer);
  SHARD_TRY(const Json* value, fields.Object("top_k"));
  const std::string where = Cat(fields.where(), ": top_k");
  SHARD_TRY(const auto top_k, LayerNumbersFromJson(where, *value, layers, kMaxExpertsPerLayer));
  if (top_k == model.top_k) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": expected that of \"model\", found other numbers")};
}

Status ReadOptionalSections(const JsonFields& fields, Manifest& manifest) {
  if (fields.Has("stages")) SHARD_CHECK(fields.Array("stages"));
  if (fields.Has("calibration")) SHARD_CHECK(fields.Object("calibration"));
  if (!fields.Has("quality")) return Ok();
  SHARD_TRY(const Json* quality, fields.Object("quality"));
  const auto measured = quality->find("measured");
  if (measured == quality->end()) return Ok();
  SHARD_TRY(manifest.quality, QualityFromJson(Cat(fields.where(), ": quality: measured"), *measured,
                                              manifest.plan.groups.size()));
  return Ok();
}

}  // namespace

Json VersionsToJson(const Versions& versions) { return ToJson(kVersionFields, versions); }

Result<Versions> ReadVersions(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* value, fields.Object(name));
  return ReadRecord(kVersionFields, Cat(fields.where(), ": ", name), *value);
}

const Json& UnknownOf(const Manifest& manifest) {
  static const Json none = Json::object();
  return manifest.original ? *manifest.original : none;
}

Json RoutingToJson(const Manifest& manifest) {
  Json out = {{"policy", "masked-group"}, {"eligible", "group+fill+overlay"}};
  out["top_k"] = ModelToJson(manifest.model)["top_k"];
  out["mask_point"] = "logits";
  if (manifest.plan.placement) {
    out["placement"] = PlacementToJson(*manifest.plan.placement);
    return out;
  }
  const Json& unknown = UnknownOf(manifest);
  const bool kept = unknown.contains("routing") && unknown["routing"].contains("placement");
  out["placement"] = kept ? unknown["routing"]["placement"] : Json{{"rule", "hash"}};
  return out;
}

Json HeadToJson(const Manifest& manifest) {
  Json out = {{"format", kFormatName}};
  out["format_version"] = std::to_string(kFormatMajor) + "." + std::to_string(MinorOf(manifest));
  out["model"] = ModelToJson(manifest.model);
  out["versions"] = VersionsToJson(manifest.versions);
  out["partition"] = PartitionToJson(manifest.plan);
  out["overlays"] = OverlaysToJson(manifest.plan);
  out["routing"] = RoutingToJson(manifest);
  if (!manifest.plan.stages.empty()) out["stages"] = StagesToJson(manifest.plan);
  if (manifest.refit) out["refit"] = RefitToJson(*manifest.refit);
  if (manifest.calibrated) out["calibrated"] = CalibratedToJson(*manifest.calibrated);
  const Json& unknown = UnknownOf(manifest);
  for (const char* section : {"stages", "calibration"}) {
    if (unknown.contains(section)) out[section] = unknown[section];
  }
  if (manifest.quality) out["quality"]["measured"] = QualityToJson(*manifest.quality);
  if (unknown.contains("quality")) {
    if (manifest.quality) {
      KeepUnknown(unknown["quality"], out["quality"]);
    } else {
      out["quality"] = unknown["quality"];
    }
  }
  WriteFields(kPartsFields, manifest, out);
  return out;
}

Status ReadHead(const JsonFields& fields, const Json& document, Manifest& manifest) {
  const std::string& where = fields.where();
  SHARD_TRY(const Json* model, fields.Object("model"));
  SHARD_TRY(manifest.model, ModelFromJson(Cat(where, ": model"), *model));
  SHARD_TRY(manifest.versions, ReadVersions(fields, "versions"));
  SHARD_TRY(manifest.plan, UncheckedPlanFromJson(where, document, manifest.model.moe_layers,
                                                 manifest.model.top_k));
  SHARD_TRY(const Json* routing, fields.Object("routing"));
  const JsonFields rules(*routing, Cat(where, ": routing"));
  SHARD_CHECK(CheckRules(rules));
  SHARD_CHECK(ReadPlacement(rules, manifest.plan));
  if (fields.Has("refit")) {
    SHARD_TRY(const Json* refit, fields.Object("refit"));
    SHARD_TRY(RefitRecord record, RefitFromJson(Cat(where, ": refit"), *refit));
    manifest.refit = std::make_shared<const RefitRecord>(std::move(record));
  }
  if (fields.Has("calibrated")) {
    SHARD_TRY(const Json* calibrated, fields.Object("calibrated"));
    SHARD_TRY(CalibratedRecord record, CalibratedFromJson(Cat(where, ": calibrated"), *calibrated));
    manifest.calibrated = std::make_shared<const CalibratedRecord>(std::move(record));
  }
  SHARD_CHECK(CheckTopK(rules, manifest.model));
  SHARD_CHECK(ReadOptionalSections(fields, manifest));
  return ReadFields(kPartsFields, fields, manifest);
}

Json TailToJson(const Manifest& manifest) {
  Json out = Json::object();
  Json& assets = out["assets"] = Json::array();
  for (const AssetRecord& asset : manifest.assets) assets.push_back(AssetToJson(asset));
  Json& tool = out["tool"] = {{"name", "moepack"}};
  WriteFields(kToolFields, manifest, tool);
  return out;
}

Status ReadTail(const JsonFields& fields, Manifest& manifest) {
  SHARD_TRY(const Json* value, fields.Object("tool"));
  return ReadFields(kToolFields, JsonFields(*value, Cat(fields.where(), ": tool")), manifest);
}

std::span<const Field<ManifestHead>> ToolFields() { return kToolFields; }

}  // namespace moepack::manifest
