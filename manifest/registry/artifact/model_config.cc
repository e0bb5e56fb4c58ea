// The ModelPack config of an artifact: a closed schema, so that nothing of our own is in it.
#include <ctime>
#include <nlohmann/json.hpp>

#include "libshard/base/json_values.h"
#include "libshard/base/text.h"
#include "manifest/registry/artifact/describe_set.h"

namespace moepack::registry {
namespace {

constexpr size_t kMaxConfigValues = 1u << 18;

void AddText(Json& object, const char* key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}

}  // namespace

std::string CreatedText(const manifest::Manifest& manifest) {
  const auto time = static_cast<time_t>(manifest.created);
  std::tm parts = {};
  char text[32];
  if (manifest.created == 0 || gmtime_r(&time, &parts) == nullptr) return "";
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts));
}

std::string ConfigText(const manifest::Manifest& manifest, const std::vector<BlobRecord>& layers) {
  Json descriptor = Json::object();
  AddText(descriptor, "createdAt", CreatedText(manifest));
  AddText(descriptor, "family", manifest.model.family);
  AddText(descriptor, "name", manifest.model.id);
  AddText(descriptor, "revision", manifest.model.revision);
  Json config = Json::object();
  AddText(config, "architecture", manifest.model.architecture);
  config["format"] = manifest.is_gguf() ? "gguf" : "safetensors";
  config["paramSize"] = Lower(FormatParameters(manifest.model.parameters_total));
  AddText(config, "quantization", manifest.recipe.name);
  Json digests = Json::array();
  for (const BlobRecord& layer : layers) digests.push_back(layer.digest);
  const Json document = {{"descriptor", std::move(descriptor)},
                         {"config", std::move(config)},
                         {"modelfs", {{"type", "layers"}, {"diffIds", std::move(digests)}}}};
  return document.dump();
}

Status CheckConfig(const std::string& where, std::string_view text,
                   const std::vector<BlobRecord>& layers) {
  SHARD_CHECK(CheckJsonValues(where, text, kMaxConfigValues));
  SHARD_TRY(const Json document, ParseJson(where, text));
  if (!document.is_object()) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected an object, found ", DescribeJson(document))};
  }
  SHARD_TRY(const Json* files, JsonFields(document, where).Object("modelfs"));
  const JsonFields fields(*files, Cat(where, ": modelfs"));
  SHARD_TRY(const Json* digests, fields.Array("diffIds"));
  if (digests->size() != layers.size()) {
    return Error{Code::kCorrupt, Cat(fields.where(), ": diffIds: expected one for each of ",
                                     layers.size(), " layers, found ", digests->size())};
  }
  for (size_t i = 0; i < layers.size(); ++i) {
    const Json& found = (*digests)[i];
    if (found.is_string() && found.get_ref<const std::string&>() == layers[i].digest) continue;
    return Error{Code::kCorrupt, Cat(fields.where(), ": diffIds: expected ", layers[i].digest,
                                     " for layer ", i, ", found ", DescribeJson(found))};
  }
  return Ok();
}

}  // namespace moepack::registry
