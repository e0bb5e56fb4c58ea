// The section "model": a row per field.
#include "manifest/document/model_record.h"

#include <utility>

#include "libshard/base/text/text.h"
#include "manifest/document/manifest_json.h"

namespace moepack::manifest {

namespace {

// What is known about the bytes of a file that came from another machine: either the whole file was
// read and has the published SHA-256, or ranges of it were read.
constexpr const char* kVerifiedWhole = "whole";
constexpr const char* kVerifiedTransport = "transport";

constexpr Field<ModelLicense> kLicenseFields[] = {
    {"id", AsText<&ModelLicense::id>, Presence::kOptional},
    {"name", AsText<&ModelLicense::name>, Presence::kOptional},
    {"link", AsText<&ModelLicense::link>, Presence::kOptional},
};

Result<std::string> ReadSourcePath(const JsonFields& fields, const char* name) {
  SHARD_TRY(std::string file, fields.String(name));
  SHARD_CHECK(CheckRelativePath(fields.where(), file));
  return file;
}

constexpr Field<SourceRecord> kSourceFields[] = {
    {"file", As<&SourceRecord::file, ReadSourcePath>},
    {"size", AsCount<&SourceRecord::size, kMaxFileBytes>},
    {"header_sha256", AsHex<&SourceRecord::header_sha256, 64>},
    {"sha256", AsHex<&SourceRecord::sha256, 64>, Presence::kOptional},
};

// Fields of the same object, if the file was read from another machine; "verified" follows them.
constexpr Field<Origin> kOriginFields[] = {
    {"url", AsText<&Origin::url>},
    {"commit", AsText<&Origin::commit>, Presence::kOptional},
    {"validator", AsText<&Origin::validator>, Presence::kOptional},
    {"published_sha256", AsHex<&Origin::sha256, 64>, Presence::kOptional},
};

// "verified" says no more than the digests beside it.
Status ReadVerified(const JsonFields& fields, SourceRecord& source) {
  SHARD_TRY(const std::string found, fields.StringOr("verified", ""));
  source.whole = found == kVerifiedWhole && source.may_be_whole();
  if (source.whole || found == (source.origin ? kVerifiedTransport : "")) return Ok();
  return Error{Code::kCorrupt, Cat(fields.where(), ": verified: expected ",
                                   Quoted(source.origin ? kVerifiedTransport : ""),
                                   " by the digests beside it, found ", Quoted(found))};
}

Json SourcesToJson(const std::vector<SourceRecord>& sources) {
  Json out = Json::array();
  for (const SourceRecord& source : sources) {
    Json fields = ToJson(kSourceFields, source);
    if (source.origin) {
      WriteFields(kOriginFields, *source.origin, fields);
      fields["verified"] = source.whole ? kVerifiedWhole : kVerifiedTransport;
    }
    out.push_back(std::move(fields));
  }
  return out;
}

Result<std::vector<SourceRecord>> ReadSources(const JsonFields& model, const char* name) {
  SHARD_TRY(const Json* list, model.Array(name));
  std::vector<SourceRecord> sources;
  for (const Json& value : *list) {
    const std::string where = Cat(model.where(), ": ", name, "[", sources.size(), "]");
    SHARD_TRY(SourceRecord source, ReadRecord(kSourceFields, where, value));
    const JsonFields fields(value, where);
    if (fields.Has("url")) SHARD_CHECK(ReadFields(kOriginFields, fields, source.origin.emplace()));
    SHARD_CHECK(ReadVerified(fields, source));
    sources.push_back(std::move(source));
  }
  return sources;
}

ExpertIds LayersOf(const LayerCounts& counts) {
  ExpertIds layers;
  for (const auto& [layer, count] : counts) layers.push_back(layer);
  return layers;
}

Json WriteMoeLayers(const ModelRecord& model) { return FormatIds(LayersOf(model.moe_layers)); }

// The numbers of experts follow.
Status ReadMoeLayers(const JsonFields& fields, const char* name, ModelRecord& model) {
  SHARD_TRY(const std::string text, fields.String(name));
  SHARD_TRY(const ExpertIds layers, ParseIds(Cat(fields.where(), ": ", name), text, kMaxLayer));
  for (const uint32_t layer : layers) model.moe_layers[layer] = 0;
  return Ok();
}

Result<LayerCounts> NumbersOfLayers(const JsonFields& fields, const char* name,
                                    const ModelRecord& model) {
  SHARD_TRY(const Json* numbers, fields.Object(name));
  return LayerNumbersFromJson(Cat(fields.where(), ": ", name), *numbers, LayersOf(model.moe_layers),
                              kMaxExpertsPerLayer);
}

Json WriteExperts(const ModelRecord& model) { return LayerNumbersToJson(model.moe_layers); }

Status ReadExperts(const JsonFields& fields, const char* name, ModelRecord& model) {
  const std::string& where = fields.where();
  SHARD_TRY(model.moe_layers, NumbersOfLayers(fields, name, model));
  uint64_t total = 0;
  for (const auto& [layer, count] : model.moe_layers) {
    total += count;
    if (count > 0) continue;
    return Error{Code::kCorrupt,
                 Cat(where, ": ", name, ": layer ", layer, ": expected at least 1, found 0")};
  }
  if (total > 0 && total <= kMaxExpertsInAll) return Ok();
  return Error{Code::kCorrupt, Cat(where, ": ", name, ": expected 1 to ", kMaxExpertsInAll,
                                   " in all layers together, found ", total)};
}

// One number per MoE layer; 0 if unknown.
Json WriteTopK(const ModelRecord& model) {
  std::map<uint32_t, uint32_t> top_k;
  for (const auto& [layer, count] : model.moe_layers) {
    const auto found = model.top_k.find(layer);
    top_k[layer] = found == model.top_k.end() ? 0 : found->second;
  }
  return LayerNumbersToJson(top_k);
}

Status ReadTopK(const JsonFields& fields, const char* name, ModelRecord& model) {
  SHARD_TRY(model.top_k, NumbersOfLayers(fields, name, model));
  return Ok();
}

constexpr Field<CalibrationKeys> kCalibratedFields[] = {
    {"version", As<&CalibrationKeys::version, ReadShortText>},
    {"method", As<&CalibrationKeys::method, ReadShortText>},
    {"texts", As<&CalibrationKeys::texts, ReadShortText>},
    {"tokens", As<&CalibrationKeys::tokens, &JsonFields::Unsigned>},
};

// Without proof is what the user chose. Authors may state the licence later or differently for the
// same weights, so `verify` only names a difference.
constexpr Field<ModelRecord> kModelFields[] = {
    {"id", AsText<&ModelRecord::id>, Presence::kDefaulted, Proof::kNone},
    {"revision", AsText<&ModelRecord::revision>, Presence::kDefaulted, Proof::kNone},
    {"family", AsText<&ModelRecord::family>},
    {"license", AsRecord<&ModelRecord::license, kLicenseFields>, Presence::kOptional, Proof::kRule},
    {"architecture", AsText<&ModelRecord::architecture>, Presence::kDefaulted},
    {"source_format", AsText<&ModelRecord::source_format>},
    {"source", As<&ModelRecord::source, ReadSources, SourcesToJson>, Presence::kRequired,
     Proof::kRule},
    {"layers", AsCount<&ModelRecord::layers, kMaxLayers>},
    {"mtp_layers", AsCount<&ModelRecord::mtp_layers>, Presence::kDefaulted},
    {"moe_layers", {WriteMoeLayers, ReadMoeLayers}, Presence::kRequired, Proof::kRule},
    {"experts", {WriteExperts, ReadExperts}, Presence::kRequired, Proof::kRule},
    {"top_k", {WriteTopK, ReadTopK}, Presence::kRequired, Proof::kRule},
    {"hidden_size", AsCount<&ModelRecord::hidden_size>, Presence::kDefaulted},
    {"expert_intermediate_size", AsCount<&ModelRecord::expert_intermediate_size>,
     Presence::kDefaulted},
    {"vocab_size", AsCount<&ModelRecord::vocab_size>, Presence::kDefaulted},
    {"gating", AsText<&ModelRecord::gating>},
    {"normalize", AsFlag<&ModelRecord::normalize>},
    {"scale", AsNumber<&ModelRecord::scale>, Presence::kOptional},
    {"shared_experts", AsCount<&ModelRecord::shared_experts>, Presence::kDefaulted},
    {"expert_groups", AsCount<&ModelRecord::expert_groups>, Presence::kDefaulted},
    {"expert_groups_used", AsCount<&ModelRecord::expert_groups_used>, Presence::kDefaulted},
    {"parameters_total", AsCount<&ModelRecord::parameters_total>, Presence::kDefaulted},
    {"parameters_active", AsCount<&ModelRecord::parameters_active>, Presence::kDefaulted},
    {"calibrated", AsRecord<&ModelRecord::calibrated, kCalibratedFields>, Presence::kOptional,
     Proof::kRule},
};

}  // namespace

std::span<const Field<ModelRecord>> ModelFields() { return kModelFields; }

Json ModelToJson(const ModelRecord& model) { return ToJson(kModelFields, model); }

Result<ModelRecord> ModelFromJson(const std::string& where, const Json& value) {
  return ReadRecord(kModelFields, where, value);
}

}  // namespace moepack::manifest
