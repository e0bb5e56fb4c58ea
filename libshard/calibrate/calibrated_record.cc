#include "libshard/calibrate/calibrated_record.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/format_version.h"
#include "libshard/base/text/record.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

constexpr size_t kVersionDigits = 16;
constexpr const char* kKeyPrefix = "moepack.calibration.";

template <auto kMember>
constexpr auto Whole = As<kMember, &JsonFields::Unsigned>;

Result<const quant::Format*> ReadType(const JsonFields& fields, const char* name) {
  SHARD_TRY(const std::string type, fields.String(name));
  const quant::Format* format = quant::FindFormat(type);
  if (format != nullptr && format->block_values > 1) return format;
  return fields.Wrong(name, "a type with blocks");
}

std::string TypeName(const quant::Format* type) { return std::string(type->name); }

constexpr Field<CalibratedTensor> kTensorFields[] = {
    {"name", As<&CalibratedTensor::name, ReadShortText>},
    {"type", As<&CalibratedTensor::type, ReadType, TypeName>},
    {"offset", Whole<&CalibratedTensor::offset>},
    {"bytes", Whole<&CalibratedTensor::bytes>},
};

Json TensorsToJson(const std::vector<CalibratedTensor>& tensors) {
  Json out = Json::array();
  for (const CalibratedTensor& tensor : tensors) out.push_back(ToJson(kTensorFields, tensor));
  return out;
}

Result<std::vector<CalibratedTensor>> ReadTensors(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, fields.Array(name));
  std::vector<CalibratedTensor> tensors;
  uint64_t end = 0;
  for (const Json& entry : *list) {
    const std::string where = Cat(fields.where(), ": ", name, " ", tensors.size());
    SHARD_TRY(CalibratedTensor tensor, ReadRecord(kTensorFields, where, entry));
    if (tensor.offset != end)
      return Error{Code::kCorrupt, Cat(where, ": offset: expected ", end,
                                       ", the end of the tensor before it, found ", tensor.offset)};
    if (tensor.bytes == 0 || tensor.bytes > kMaxFileBytes - end ||
        tensor.bytes % tensor.type->block_bytes != 0)
      return Error{Code::kCorrupt, Cat(where, ": bytes: expected blocks of ",
                                       tensor.type->block_bytes, " bytes, found ", tensor.bytes)};
    end += tensor.bytes;
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

Result<double> ReadError(const JsonFields& fields, const char* name) {
  SHARD_TRY(const double error, fields.Number(name));
  if (!std::isfinite(error)) return fields.Wrong(name, "a finite number");
  return error;
}

Result<uint32_t> ReadLayer(const JsonFields& fields, const char* name) {
  SHARD_TRY(const uint64_t number, fields.Unsigned(name));
  if (number <= kMaxLayers) return static_cast<uint32_t>(number);
  return fields.Wrong(name, "the number of a layer");
}

constexpr Field<CalibratedFigures> kFigures[] = {
    {"matrices", Whole<&CalibratedFigures::matrices>},
    {"accepted", Whole<&CalibratedFigures::accepted>},
    {"few_tokens", Whole<&CalibratedFigures::few_tokens>},
    {"worse", Whole<&CalibratedFigures::worse>},
    {"unseen", Whole<&CalibratedFigures::unseen>},
    {"error_plain", As<&CalibratedFigures::error_plain, ReadError>},
    {"error", As<&CalibratedFigures::error, ReadError>},
};

Json ExpertsToJson(const std::vector<CalibratedExpert>& experts) {
  Json out = Json::array();
  for (const CalibratedExpert& expert : experts) {
    out.push_back({{"id", expert.id}});
    WriteFields(kFigures, expert.figures, out.back());
  }
  return out;
}

Result<std::vector<CalibratedExpert>> ReadExperts(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, fields.Array(name));
  std::vector<CalibratedExpert> experts;
  for (const Json& entry : *list) {
    const std::string where = Cat(fields.where(), ": ", name, " ", experts.size());
    SHARD_CHECK(CheckObject(where, entry));
    const JsonFields own(entry, where);
    SHARD_TRY(const uint64_t id, own.Unsigned("id"));
    if (id >= kMaxExpertsPerLayer || (!experts.empty() && id <= experts.back().id))
      return own.Wrong("id", "experts in ascending order");
    CalibratedExpert& expert = experts.emplace_back();
    expert.id = static_cast<uint32_t>(id);
    SHARD_CHECK(ReadFields(kFigures, own, expert.figures));
  }
  return experts;
}

constexpr Field<CalibratedOutcome> kOutcomeFields[] = {
    {"layer", As<&CalibratedOutcome::layer, ReadLayer>},
};

// Behind the figures.
constexpr Field<CalibratedOutcome> kOutcomeFiles[] = {
    {"experts", As<&CalibratedOutcome::experts, ReadExperts, ExpertsToJson>, Presence::kOptional},
    {"tensors", As<&CalibratedOutcome::tensors, ReadTensors, TensorsToJson>},
    {"sha256", As<&CalibratedOutcome::sha256, ReadSha256>, Presence::kOptional},
};

Json LayersToJson(const std::vector<CalibratedOutcome>& layers) {
  Json out = Json::array();
  for (const CalibratedOutcome& layer : layers) {
    out.push_back(ToJson(kOutcomeFields, layer));
    WriteFields<CalibratedFigures>(kFigures, layer, out.back());
    WriteFields(kOutcomeFiles, layer, out.back());
  }
  return out;
}

Result<CalibratedOutcome> ReadOutcome(const std::string& where, const Json& value,
                                      uint32_t expected) {
  SHARD_TRY(CalibratedOutcome outcome, ReadRecord(kOutcomeFields, where, value));
  const JsonFields fields(value, where);
  SHARD_CHECK(ReadFields<CalibratedFigures>(kFigures, fields, outcome));
  SHARD_CHECK(ReadFields(kOutcomeFiles, fields, outcome));
  // Each layer was encoded for the output of all layers before it.
  if (outcome.layer != expected)
    return Error{Code::kCorrupt,
                 Cat(where, ": layer: expected ", expected, ", found ", outcome.layer)};
  if (outcome.tensors.empty() == outcome.sha256.empty()) return outcome;
  return fields.Wrong("sha256",
                      outcome.tensors.empty() ? "none without tensors" : "that of a file");
}

// What became of a model's layers, `where`, each of whose tensors occurs once.
Result<std::vector<CalibratedOutcome>> LayersFromJson(const std::string& where, const Json& list) {
  std::vector<CalibratedOutcome> layers;
  std::set<std::string_view> names;
  layers.reserve(list.size());  // so that the names stay where they are
  for (const Json& entry : list) {
    const std::string place = Cat(where, " ", layers.size());
    SHARD_TRY(CalibratedOutcome layer,
              ReadOutcome(place, entry, static_cast<uint32_t>(layers.size())));
    layers.push_back(std::move(layer));
    for (const CalibratedTensor& tensor : layers.back().tensors) {
      if (names.insert(tensor.name).second) continue;
      return Error{Code::kCorrupt, Cat(place, ": tensor ", Quoted(tensor.name),
                                       ": expected once, found a second one")};
    }
  }
  return layers;
}

Result<std::vector<CalibratedOutcome>> ReadLayers(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* list, fields.Array(name));
  return LayersFromJson(Cat(fields.where(), ": ", name), *list);
}

// The tensors of a group's layer have rows of its refitted experts.
Status CheckRowsOfExperts(const std::string& where, const CalibratedOutcome& layer) {
  for (const CalibratedTensor& tensor : layer.tensors) {
    if (!layer.experts.empty() && tensor.bytes % layer.experts.size() == 0) continue;
    return Error{Code::kCorrupt, Cat(where, " ", layer.layer, ": tensor ", Quoted(tensor.name),
                                     ": expected rows of ", layer.experts.size(),
                                     " experts, found ", tensor.bytes, " bytes")};
  }
  return Ok();
}

Json GroupsToJson(const CalibratedGroups& groups) {
  Json layers = Json::array();
  for (const std::vector<CalibratedOutcome>& group : groups.layers)
    layers.push_back(LayersToJson(group));
  return {{"refit", groups.refit}, {"layers", std::move(layers)}};
}

Result<CalibratedGroups> ReadGroups(const JsonFields& fields, const char* name) {
  SHARD_TRY(const Json* value, fields.Object(name));
  const JsonFields own(*value, Cat(fields.where(), ": ", name));
  CalibratedGroups groups;
  SHARD_TRY(groups.refit, ReadVersionDigits(own, "refit"));
  SHARD_TRY(const Json* list, own.Array("layers"));
  for (const Json& entry : *list) {
    const std::string where = Cat(own.where(), ": group ", groups.layers.size(), ": layers");
    if (!entry.is_array()) return own.Wrong("layers", "an array for each group");
    SHARD_TRY(groups.layers.emplace_back(), LayersFromJson(where, entry));
    for (const CalibratedOutcome& layer : groups.layers.back())
      SHARD_CHECK(CheckRowsOfExperts(where, layer));
  }
  return groups;
}

// After the format and its version.
constexpr Field<CalibratedRecord> kFields[] = {
    {"model", As<&CalibratedRecord::model, ReadVersionDigits>},
    {"types", As<&CalibratedRecord::types, ReadSha256>},
    {"layer_count", As<&CalibratedRecord::layer_count, ReadLayer>},
    {"parameters", As<&CalibratedRecord::parameters, ReadTextParameters, TextParametersToJson>},
    {"calibration",
     As<&CalibratedRecord::calibration, ReadCalibrationTexts, CalibrationTextsToJson>},
    {"layers", As<&CalibratedRecord::layers, ReadLayers, LayersToJson>},
    {"groups", As<&CalibratedRecord::groups, ReadGroups, GroupsToJson>, Presence::kOptional},
};

}  // namespace

void CalibratedFigures::Add(const CalibratedFigures& other) {
  matrices += other.matrices;
  accepted += other.accepted;
  few_tokens += other.few_tokens;
  worse += other.worse;
  unseen += other.unseen;
  error_plain += other.error_plain;
  error += other.error;
}

CalibratedRecord::Place CalibratedRecord::Find(std::string_view name) const {
  for (const CalibratedOutcome& layer : layers) {
    const auto found =
        std::find_if(layer.tensors.begin(), layer.tensors.end(),
                     [&](const CalibratedTensor& tensor) { return tensor.name == name; });
    if (found != layer.tensors.end()) return {&layer, &*found};
  }
  return {};
}

const CalibratedOutcome* CalibratedRecord::FindInGroup(uint32_t group, uint32_t layer) const {
  if (!groups || group >= groups->layers.size()) return nullptr;
  const std::vector<CalibratedOutcome>& own = groups->layers[group];
  return layer < own.size() ? &own[layer] : nullptr;
}

uint64_t CalibratedRecord::tokens() const {
  uint64_t sum = 0;
  for (const CalibrationText& text : calibration)
    sum += text.taken ? text.taken->tokens : text.tokens;
  return sum;
}

CalibratedFigures CalibratedRecord::sum() const {
  CalibratedFigures sum;
  for (const CalibratedOutcome& layer : layers) sum.Add(layer);
  if (!groups) return sum;
  for (const std::vector<CalibratedOutcome>& group : groups->layers) {
    for (const CalibratedOutcome& layer : group) sum.Add(layer);
  }
  return sum;
}

std::string TypesDigest(const std::map<std::string, const quant::Format*, std::less<>>& types) {
  std::string text;
  for (const auto& [name, type] : types) text += Cat(name, " ", type->name, "\n");
  return Sha256Hex(text);
}

Json CalibratedToJson(const CalibratedRecord& record) {
  Json document = Json::object();
  document["format"] = kCalibratedFormat;
  document["format_version"] = Cat(kCalibratedMajor, ".0");
  WriteFields(kFields, record, document);
  return document;
}

Result<CalibratedRecord> CalibratedFromJson(const std::string& where, const Json& document) {
  SHARD_CHECK(CheckObject(where, document));
  const JsonFields fields(document, where);
  SHARD_CHECK(CheckFormat(fields, kCalibratedFormat, kCalibratedMajor));
  CalibratedRecord record;
  SHARD_CHECK(ReadFields(kFields, fields, record));
  if (record.layers.size() > size_t{record.layer_count} + 1)
    return fields.Wrong("layers", Cat("at most ", record.layer_count + 1).c_str());
  if (!record.groups) return record;
  for (const std::vector<CalibratedOutcome>& group : record.groups->layers) {
    if (group.size() <= record.layer_count) continue;
    return fields.Wrong("groups", Cat("at most ", record.layer_count, " layers of each").c_str());
  }
  return record;
}

void SetCalibrationKeys(const CalibratedRecord& record, GgufMetadata& metadata) {
  const auto set = [&](const char* key, GgufValue value) {
    metadata.Set(Cat(kKeyPrefix, key), std::move(value));
  };
  // The record has the digest of every file, so its own stands for all the bytes.
  set("version",
      GgufValue::String(Sha256Hex(WriteJson(CalibratedToJson(record))).substr(0, kVersionDigits)));
  set("tokens",
      GgufValue::U32(static_cast<uint32_t>(std::min<uint64_t>(record.tokens(), UINT32_MAX))));
  set("texts", GgufValue::String(Sha256Hex(WriteJson(CalibrationTextsToJson(record.calibration)))));
  for (const auto& [name, value] : record.parameters) set(name.c_str(), GgufValue::String(value));
}

std::optional<CalibrationKeys> FindCalibrationKeys(const GgufMetadata& metadata) {
  constexpr size_t kMostKeyText = 64;  // a SHA-256
  const auto text = [&](const char* key) {
    const std::string_view found = metadata.String(Cat(kKeyPrefix, key)).value_or("");
    return found.size() <= kMostKeyText && IsUtf8(found) ? std::string(found) : std::string();
  };
  if (metadata.Find(Cat(kKeyPrefix, "version")) == nullptr) return std::nullopt;
  return CalibrationKeys{text("version"), text("method"), text("texts"),
                         metadata.Uint(Cat(kKeyPrefix, "tokens")).value_or(0)};
}

}  // namespace moepack
