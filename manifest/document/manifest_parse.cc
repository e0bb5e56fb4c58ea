// Reads a manifest. The text may be hostile: every number is bounded, every path checked, and
// nothing much larger than the text is allocated.

#include "libshard/base/text/format_version.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/unknown_fields.h"

namespace moepack::manifest {

namespace {

Status ReadBundles(const JsonFields& fields, Manifest& manifest) {
  SHARD_TRY(const Json* bundles, fields.Array("bundles"));
  uint64_t ids_left = kMaxTensorIds;
  for (const Json& value : *bundles) {
    SHARD_TRY(BundleRecord bundle,
              BundleFromJson(Cat(fields.where(), ": bundle"), value, ids_left));
    if (bundle.group && *bundle.group >= manifest.plan.groups.size()) {
      return Error{Code::kCorrupt, Cat(fields.where(), ": bundle ", Quoted(bundle.file),
                                       ": group: expected a number below ",
                                       manifest.plan.groups.size(), ", found ", *bundle.group)};
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

}  // namespace

Result<Manifest> ParseUncheckedPlan(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json document, ParseJson(where, text));
  SHARD_CHECK(CheckObject(where, document));
  const JsonFields fields(document, where);
  Manifest manifest;
  SHARD_CHECK(CheckFormat(fields, kFormatName, kFormatMajor));
  SHARD_CHECK(ReadHead(fields, document, manifest));
  SHARD_CHECK(ReadBundles(fields, manifest));
  SHARD_CHECK(CheckPathsDiffer(where, manifest));
  SHARD_CHECK(ReadTail(fields, manifest));
  manifest.original = UnknownOfDocument(document, manifest);
  return manifest;
}

Result<Manifest> ParseManifest(const std::string& where, std::string_view text) {
  SHARD_TRY(Manifest manifest, ParseUncheckedPlan(where, text));
  SHARD_CHECK(CheckPlan(where, manifest.plan));
  return manifest;
}

}  // namespace moepack::manifest
