// Reads a manifest. The text may be hostile: every number is bounded, every path checked, and
// nothing much larger than the text is allocated.

#include "libshard/base/text/format_version.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/plan/placement.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/unknown_fields.h"

namespace moepack::manifest {

namespace {

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

Status ReadBundles(const JsonFields& fields, Manifest& manifest) {
  SHARD_TRY(const Json* bundles, fields.Array("bundles"));
  uint64_t ids_left = kMaxTensorIds;
  for (const Json& value : *bundles) {
    SHARD_TRY(BundleRecord bundle,
              BundleFromJson(Cat(fields.where(), ": bundle"), value, ids_left));
    if (bundle.group && *bundle.group >= manifest.plan.groups.size()) {
      return Error{Code::kCorrupt, Cat(fields.where(), ": bundle ", Quoted(bundle.file),
                                       ": group: expected less than ", manifest.plan.groups.size(),
                                       ", found ", *bundle.group)};
    }
    manifest.bundles.push_back(std::move(bundle));
  }
  SHARD_TRY(const Json* assets, fields.Array("assets"));
  for (const Json& value : *assets) {
    SHARD_TRY(AssetRecord asset, AssetFromJson(Cat(fields.where(), ": asset"), value));
    manifest.assets.push_back(std::move(asset));
  }
  return Ok();
}

Status CheckPathsDiffer(const std::string& where, const Manifest& manifest) {
  TextSet<std::string_view> paths;
  std::vector<std::string_view> all;
  for (const BundleRecord& bundle : manifest.bundles) all.push_back(bundle.file);
  for (const AssetRecord& asset : manifest.assets) all.push_back(asset.file);
  for (std::string_view path : all) {
    if (paths.insert(path).second) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": file ", Quoted(path), ": expected once, found twice")};
  }
  return Ok();
}

Status ReadTool(const JsonFields& fields, Manifest& manifest) {
  SHARD_TRY(manifest.tool_version, fields.String("version"));
  if (fields.Has("created")) {
    SHARD_TRY(manifest.created, NumberField(fields, "created", kMaxFileBytes));
  }
  SHARD_TRY(manifest.recipe, RecipeFromJson(fields));
  if (!fields.Has("command")) return Ok();
  SHARD_TRY(const Json* command, fields.Array("command"));
  for (const Json& word : *command) {
    if (!word.is_string()) return fields.Wrong("command", "an array of strings");
    manifest.command.push_back(word.get<std::string>());
  }
  return Ok();
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

// Compares bundle by bundle, so that there is never a second document as large as the first.
Json UnknownOfBundles(const Json& bundles, const Manifest& manifest) {
  Json rest = Json::array();
  for (size_t i = 0; i < bundles.size(); ++i) {
    const BundleRecord& bundle = manifest.bundles[i];
    Json known = BundleToJson(bundle);
    known["tensors"] = nullptr;
    Json fields = UnknownFields(bundles[i], known);
    Json tensors = Json::array();
    for (size_t t = 0; t < bundle.tensors.size(); ++t) {
      Json tensor = UnknownFields(bundles[i]["tensors"][t], TensorToJson(bundle.tensors[t]));
      if (tensor.empty()) continue;
      tensor["name"] = bundle.tensors[t].name;
      tensors.push_back(std::move(tensor));
    }
    if (!tensors.empty()) fields["tensors"] = std::move(tensors);
    if (fields.empty()) continue;
    fields["file"] = bundle.file;
    rest.push_back(std::move(fields));
  }
  return rest;
}

// A "placement" with a rule other than the table's is kept whole: this version does not use it. The
// name of another tool is kept for those who report it; what this version writes has its own.
std::shared_ptr<const Json> UnknownOfDocument(const Json& document, const Manifest& manifest) {
  Json known = HeadToJson(manifest);
  if (!manifest.plan.placement) known["routing"].erase("placement");
  known.update(TailToJson(manifest));
  const Json& name = document["tool"].is_object() && document["tool"].contains("name")
                         ? document["tool"]["name"]
                         : known["tool"]["name"];
  if (name != known["tool"]["name"]) known["tool"].erase("name");
  known["bundles"] = nullptr;
  auto rest = std::make_shared<Json>(UnknownFields(document, known));
  Json bundles = UnknownOfBundles(document["bundles"], manifest);
  if (!bundles.empty()) (*rest)["bundles"] = std::move(bundles);
  return rest;
}

Status ReadHead(const JsonFields& fields, const Json& document, Manifest& manifest) {
  const std::string& where = fields.where();
  SHARD_TRY(const Json* model, fields.Object("model"));
  SHARD_TRY(manifest.model, ModelFromJson(Cat(where, ": model"), *model));
  SHARD_TRY(const Json* versions, fields.Object("versions"));
  SHARD_TRY(manifest.versions, VersionsFromJson(JsonFields(*versions, Cat(where, ": versions"))));
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
  return CheckTopK(rules, manifest.model);
}

}  // namespace

Result<Versions> VersionsFromJson(const JsonFields& fields) {
  Versions versions;
  SHARD_TRY(versions.model, HexField(fields, "model", 16));
  SHARD_TRY(versions.shard, HexField(fields, "shard", 16));
  SHARD_TRY(versions.replica, fields.String("replica"));
  if (!versions.replica.empty()) {
    SHARD_TRY(versions.replica, HexField(fields, "replica", 16));
  }
  if (fields.Has("refit")) {
    SHARD_TRY(versions.refit, HexField(fields, "refit", 16));
  }
  return versions;
}

Result<RecipeRecord> RecipeFromJson(const JsonFields& fields) {
  RecipeRecord recipe;
  SHARD_TRY(recipe.name, fields.StringOr("recipe", ""));
  if (!fields.Has("imatrix")) return recipe;
  SHARD_TRY(const Json* imatrix, fields.Object("imatrix"));
  const JsonFields inner(*imatrix, Cat(fields.where(), ": imatrix"));
  SHARD_TRY(recipe.imatrix_file, inner.String("file"));
  SHARD_TRY(recipe.imatrix_sha256, HexField(inner, "sha256", 64));
  return recipe;
}

Result<Manifest> ParseUncheckedPlan(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseJson(where, text));
  if (!document.is_object()) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected an object, found ", DescribeJson(document))};
  }
  const JsonFields fields(document, where);
  Manifest manifest;
  SHARD_CHECK(CheckFormat(fields, kFormatName, kFormatMajor));
  SHARD_CHECK(ReadHead(fields, document, manifest));
  SHARD_CHECK(ReadOptionalSections(fields, manifest));
  SHARD_TRY(manifest.complete, fields.BoolOr("complete", true));
  SHARD_TRY(manifest.without_assets, fields.BoolOr("without_assets", false));
  SHARD_CHECK(ReadBundles(fields, manifest));
  SHARD_CHECK(CheckPathsDiffer(where, manifest));
  SHARD_TRY(const Json* tool, fields.Object("tool"));
  SHARD_CHECK(ReadTool(JsonFields(*tool, Cat(where, ": tool")), manifest));
  manifest.original = UnknownOfDocument(document, manifest);
  return manifest;
}

Result<Manifest> ParseManifest(const std::string& where, std::string_view text) {
  SHARD_TRY(Manifest manifest, ParseUncheckedPlan(where, text));
  SHARD_CHECK(CheckPlan(where, manifest.plan));
  return manifest;
}

}  // namespace moepack::manifest
