// The section "model".
#include <array>
#include <cmath>
#include <utility>

#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {

namespace {

// What is known about the bytes of a file that came from another machine: either the whole file was
// read and has the published SHA-256, or ranges of it were read.
constexpr const char* kVerifiedWhole = "whole";
constexpr const char* kVerifiedTransport = "transport";

Json SourceToJson(const SourceRecord& source) {
  Json out = {{"file", source.file}, {"size", source.size}};
  out["header_sha256"] = source.header_sha256;
  if (!source.sha256.empty()) out["sha256"] = source.sha256;
  if (!source.origin) return out;
  const Origin& origin = *source.origin;
  out["url"] = origin.url;
  if (!origin.commit.empty()) out["commit"] = origin.commit;
  if (!origin.validator.empty()) out["validator"] = origin.validator;
  if (!origin.sha256.empty()) out["published_sha256"] = origin.sha256;
  out["verified"] = source.whole ? kVerifiedWhole : kVerifiedTransport;
  return out;
}

Result<std::optional<Origin>> OriginFromJson(const JsonFields& fields) {
  if (!fields.Has("url")) return std::optional<Origin>();
  Origin origin;
  SHARD_TRY(origin.url, fields.String("url"));
  SHARD_TRY(origin.commit, fields.StringOr("commit", ""));
  SHARD_TRY(origin.validator, fields.StringOr("validator", ""));
  if (fields.Has("published_sha256")) {
    SHARD_TRY(origin.sha256, HexField(fields, "published_sha256", 64));
  }
  return std::optional(std::move(origin));
}

// "verified" says no more than the digests beside it.
Status ReadVerified(const JsonFields& fields, SourceRecord& source) {
  SHARD_TRY(const std::string found, fields.StringOr("verified", ""));
  source.whole = found == kVerifiedWhole && source.may_be_whole();
  if (source.whole || found == (source.origin ? kVerifiedTransport : "")) return Ok();
  return Error{Code::kCorrupt, Cat(fields.where(), ": verified: expected ",
                                   Quoted(source.origin ? kVerifiedTransport : ""),
                                   " by the digests beside it, found ", Quoted(found))};
}

// The members of "license": those that are not empty.
template <class License>
auto LicenseMembers(License& license) {
  return std::array{std::pair("id", &license.id), std::pair("name", &license.name),
                    std::pair("link", &license.link)};
}

Json LicenseToJson(const ModelLicense& license) {
  Json out = Json::object();
  for (const auto& [key, text] : LicenseMembers(license)) {
    if (!text->empty()) out[key] = *text;
  }
  return out;
}

Status ReadLicense(const JsonFields& fields, ModelLicense& license) {
  if (!fields.Has("license")) return Ok();
  SHARD_TRY(const Json* value, fields.Object("license"));
  const JsonFields members(*value, Cat(fields.where(), ": license"));
  for (const auto& [key, text] : LicenseMembers(license)) {
    SHARD_TRY(*text, members.StringOr(key, ""));
  }
  return Ok();
}

ExpertIds LayersOf(const LayerCounts& counts) {
  ExpertIds layers;
  for (const auto& [layer, count] : counts) layers.push_back(layer);
  return layers;
}

Result<SourceRecord> SourceFromJson(const std::string& where, const Json& value) {
  if (!value.is_object()) {
    return Error{Code::kCorrupt, Cat(where, ": expected an object, found ", DescribeJson(value))};
  }
  const JsonFields fields(value, where);
  SourceRecord source;
  SHARD_TRY(source.file, fields.String("file"));
  SHARD_CHECK(CheckRelativePath(where, source.file));
  SHARD_TRY(source.size, NumberField(fields, "size", kMaxFileBytes));
  SHARD_TRY(source.header_sha256, HexField(fields, "header_sha256", 64));
  if (fields.Has("sha256")) {
    SHARD_TRY(source.sha256, HexField(fields, "sha256", 64));
  }
  SHARD_TRY(source.origin, OriginFromJson(fields));
  SHARD_CHECK(ReadVerified(fields, source));
  return source;
}

Status ReadText(const JsonFields& fields, ModelRecord& model) {
  SHARD_TRY(model.id, fields.StringOr("id", ""));
  SHARD_TRY(model.revision, fields.StringOr("revision", ""));
  SHARD_CHECK(ReadLicense(fields, model.license));
  SHARD_TRY(model.family, fields.String("family"));
  SHARD_TRY(model.architecture, fields.StringOr("architecture", ""));
  SHARD_TRY(model.source_format, fields.String("source_format"));
  SHARD_TRY(model.gating, fields.String("gating"));
  SHARD_TRY(model.normalize, fields.Bool("normalize"));
  if (fields.Has("scale")) {
    SHARD_TRY(model.scale, fields.Number("scale"));
  }
  return Ok();
}

Status ReadCounts(const JsonFields& fields, ModelRecord& model) {
  struct Count {
    const char* key;
    uint32_t* target;
  };
  for (const Count& count :
       {Count{"mtp_layers", &model.mtp_layers}, Count{"hidden_size", &model.hidden_size},
        Count{"expert_intermediate_size", &model.expert_intermediate_size},
        Count{"vocab_size", &model.vocab_size}, Count{"shared_experts", &model.shared_experts},
        Count{"expert_groups", &model.expert_groups},
        Count{"expert_groups_used", &model.expert_groups_used}}) {
    if (!fields.Has(count.key)) continue;
    SHARD_TRY(const uint64_t number, NumberField(fields, count.key, UINT32_MAX));
    *count.target = static_cast<uint32_t>(number);
  }
  SHARD_TRY(const uint64_t layers, NumberField(fields, "layers", kMaxLayer + 1));
  model.layers = static_cast<uint32_t>(layers);
  SHARD_TRY(model.parameters_total, fields.UnsignedOr("parameters_total", 0));
  SHARD_TRY(model.parameters_active, fields.UnsignedOr("parameters_active", 0));
  return Ok();
}

Status ReadExperts(const JsonFields& fields, ModelRecord& model) {
  const std::string& where = fields.where();
  SHARD_TRY(const std::string text, fields.String("moe_layers"));
  SHARD_TRY(const ExpertIds layers, ParseIds(Cat(where, ": moe_layers"), text, kMaxLayer));
  SHARD_TRY(const Json* experts, fields.Object("experts"));
  SHARD_TRY(model.moe_layers,
            LayerNumbersFromJson(Cat(where, ": experts"), *experts, layers, kMaxExpertsPerLayer));
  SHARD_TRY(const Json* top_k, fields.Object("top_k"));
  SHARD_TRY(model.top_k,
            LayerNumbersFromJson(Cat(where, ": top_k"), *top_k, layers, kMaxExpertsPerLayer));
  uint64_t total = 0;
  for (const auto& [layer, count] : model.moe_layers) {
    total += count;
    if (count > 0) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": experts: layer ", layer, ": expected at least 1, found 0")};
  }
  if (layers.empty() || total > kMaxExpertsInAll) {
    return Error{Code::kCorrupt, Cat(where, ": experts: expected 1 to ", kMaxExpertsInAll,
                                     " in all layers together, found ", total)};
  }
  return Ok();
}

}  // namespace

Json ModelToJson(const ModelRecord& model) {
  Json out = {{"id", model.id}, {"revision", model.revision}, {"family", model.family}};
  if (!model.license.empty()) out["license"] = LicenseToJson(model.license);
  out["architecture"] = model.architecture;
  out["source_format"] = model.source_format;
  Json& sources = out["source"] = Json::array();
  for (const SourceRecord& source : model.source) sources.push_back(SourceToJson(source));
  out["layers"] = model.layers;
  out["mtp_layers"] = model.mtp_layers;
  const ExpertIds moe_layers = LayersOf(model.moe_layers);
  out["moe_layers"] = FormatIds(moe_layers);
  out["experts"] = LayerNumbersToJson(model.moe_layers);
  std::map<uint32_t, uint32_t> top_k;  // one number per MoE layer; 0 if unknown
  for (uint32_t layer : moe_layers) {
    const auto found = model.top_k.find(layer);
    top_k[layer] = found == model.top_k.end() ? 0 : found->second;
  }
  out["top_k"] = LayerNumbersToJson(top_k);
  out["hidden_size"] = model.hidden_size;
  out["expert_intermediate_size"] = model.expert_intermediate_size;
  out["vocab_size"] = model.vocab_size;
  out["gating"] = model.gating;
  out["normalize"] = model.normalize;
  if (model.scale && std::isfinite(*model.scale)) out["scale"] = *model.scale;
  out["shared_experts"] = model.shared_experts;
  out["expert_groups"] = model.expert_groups;
  out["expert_groups_used"] = model.expert_groups_used;
  out["parameters_total"] = model.parameters_total;
  out["parameters_active"] = model.parameters_active;
  return out;
}

Result<ModelRecord> ModelFromJson(const std::string& where, const Json& value) {
  const JsonFields fields(value, where);
  ModelRecord model;
  SHARD_CHECK(ReadText(fields, model));
  SHARD_TRY(const Json* sources, fields.Array("source"));
  for (size_t i = 0; i < sources->size(); ++i) {
    SHARD_TRY(SourceRecord source, SourceFromJson(Cat(where, ": source[", i, "]"), (*sources)[i]));
    model.source.push_back(std::move(source));
  }
  SHARD_CHECK(ReadCounts(fields, model));
  SHARD_CHECK(ReadExperts(fields, model));
  return model;
}

}  // namespace moepack::manifest
