// The ModelPack config of an artifact: a closed schema, so it cannot contain anything of our own.
// Format: https://github.com/modelpack/model-spec/blob/main/schema/config-schema.json
#include <array>
#include <ctime>
#include <map>
#include <nlohmann/json.hpp>

#include "libshard/base/text/json_values.h"
#include "libshard/base/text/text.h"
#include "manifest/document/source_place.h"
#include "manifest/registry/artifact/describe_set.h"
#include "manifest/registry/artifact/spdx.h"

namespace moepack::registry {
namespace {

constexpr size_t kMaxConfigValues = 1u << 18;

void AddText(Json& object, const char* key, const std::string& text) {
  if (!text.empty()) object[key] = text;
}

// Types as safetensors and ggml spell them, in lower case, and as ModelPack does.
struct PrecisionName {
  std::string_view dtype, name;
};
constexpr std::array kPrecisions = {
    PrecisionName{"bf16", "bfloat16"},       PrecisionName{"f16", "float16"},
    PrecisionName{"f32", "float32"},         PrecisionName{"f64", "float64"},
    PrecisionName{"f8_e4m3", "float8_e4m3"}, PrecisionName{"f8_e5m2", "float8_e5m2"},
};

// The floating-point type of more than half of the bytes; "" for a model whose weights are in
// blocks or packed, which "quantization" describes.
std::string PrecisionOf(const manifest::Manifest& manifest) {
  std::map<std::string, uint64_t> bytes_by_type;
  uint64_t total = 0;
  for (const manifest::BundleRecord& bundle : manifest.bundles) {
    for (const manifest::TensorRecord& tensor : bundle.tensors) {
      bytes_by_type[Lower(tensor.dtype)] += tensor.bytes;
      total += tensor.bytes;
    }
  }
  for (const auto& [dtype, name] : kPrecisions) {
    const auto found = bytes_by_type.find(std::string(dtype));
    if (found != bytes_by_type.end() && found->second > total / 2) return std::string(name);
  }
  return "";
}

// What ConfigText may write. These are compared, also where one side does not have them.
struct WrittenKey {
  const char *section, *key;
};
constexpr std::array kWrittenKeys = {
    WrittenKey{"descriptor", "createdAt"}, WrittenKey{"descriptor", "family"},
    WrittenKey{"descriptor", "name"},      WrittenKey{"descriptor", "version"},
    WrittenKey{"descriptor", "sourceURL"}, WrittenKey{"descriptor", "revision"},
    WrittenKey{"descriptor", "licenses"},  WrittenKey{"config", "architecture"},
    WrittenKey{"config", "format"},        WrittenKey{"config", "paramSize"},
    WrittenKey{"config", "precision"},     WrittenKey{"config", "quantization"},
};

// `"MIT"`, `["MIT"]`; "" for a key that is not there.
std::string ConfigField(const Json& document, const WrittenKey& field) {
  const auto section = document.find(field.section);
  if (section == document.end() || !section->is_object()) return "";
  const auto value = section->find(field.key);
  if (value == section->end()) return "";
  return value->is_string() ? Quoted(value->get<std::string>()) : Shown(value->dump());
}

// The named revision, otherwise the commit that all source files were read from.
std::string RevisionOf(const manifest::ModelRecord& model) {
  if (!model.revision.empty() || model.source.empty()) return model.revision;
  const auto commit_of = [](const manifest::SourceRecord& source) {
    return source.origin ? source.origin->commit : "";
  };
  std::string commit = commit_of(model.source.front());
  for (const manifest::SourceRecord& source : model.source) {
    if (commit_of(source) != commit) return "";
  }
  return commit;
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
  AddText(descriptor, "version", VersionText(manifest.versions));
  AddText(descriptor, "sourceURL", manifest::SourceUrlOf(manifest.model));
  AddText(descriptor, "revision", RevisionOf(manifest.model));
  if (const auto names = SpdxNames(manifest.model.license); !names.empty())
    descriptor["licenses"] = names;
  Json config = Json::object();
  AddText(config, "architecture", manifest.model.architecture);
  config["format"] = manifest.is_gguf() ? "gguf" : "safetensors";
  config["paramSize"] = Lower(FormatParameters(manifest.model.parameters_total));
  AddText(config, "precision", PrecisionOf(manifest));
  AddText(config, "quantization", manifest.recipe.name);
  Json digests = Json::array();
  for (const BlobRecord& layer : layers) digests.push_back(layer.digest);
  const Json document = {{"descriptor", std::move(descriptor)},
                         {"config", std::move(config)},
                         {"modelfs", {{"type", "layers"}, {"diffIds", std::move(digests)}}}};
  return document.dump();
}

Error Disagrees(const std::string& where, const std::string& thing, const std::string& expected,
                const std::string& found) {
  const auto shown = [](const std::string& text) { return text.empty() ? "none" : text; };
  return {Code::kCorrupt, Cat(where, ": ", Shown(thing), ": expected ", shown(expected), " as in ",
                              manifest::kManifestFile, ", found ", shown(found))};
}

Status CompareConfig(const std::string& where, std::string_view text,
                     const manifest::Manifest& manifest) {
  SHARD_TRY(const Json found, ParseJsonObject(where, text, kMaxConfigValues));
  SHARD_TRY(const Json expected, ParseJson(where, ConfigText(manifest, {})));
  for (const WrittenKey& field : kWrittenKeys) {
    const std::string wanted = ConfigField(expected, field), there = ConfigField(found, field);
    if (wanted != there) return Disagrees(where, Cat(field.section, ".", field.key), wanted, there);
  }
  return Ok();
}

Status CheckConfig(const std::string& where, std::string_view text,
                   const std::vector<BlobRecord>& layers) {
  SHARD_TRY(const Json document, ParseJsonObject(where, text, kMaxConfigValues));
  SHARD_TRY(const Json* files, JsonFields(document, where).Object("modelfs"));
  const JsonFields fields(*files, Cat(where, ": modelfs"));
  SHARD_TRY(const Json* digests, fields.Array("diffIds"));
  if (digests->size() != layers.size()) {
    return Error{Code::kCorrupt, Cat(fields.where(), ": diffIds: expected one for each of ",
                                     Plural(layers.size(), "layer"), ", found ", digests->size())};
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
