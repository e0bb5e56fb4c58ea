#include "libshard/model/config.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "libshard/base/limits.h"
#include "libshard/base/text/json.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config_fields.h"

namespace moepack {
namespace {

using Field = HfConfig::Field;

const Json* FindMember(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const Json* ObjectMember(const Json& object, const char* key) {
  const Json* member = FindMember(object, key);
  return member != nullptr && member->is_object() ? member : nullptr;
}

class ConfigReader {
 public:
  explicit ConfigReader(const HfConfig& config) : fields_(config) {}

  Result<ModelConfig> Read();

 private:
  std::optional<Field> Find(ConfigKeys keys) const { return fields_.Find(keys); }
  Error Wrong(const Field& field, const std::string& expected) const {
    return fields_.Wrong(field, expected);
  }

  Result<uint32_t> Number(const Field& field, const Json& value, uint64_t limit) const;
  // Reads a number, or a list with one number per layer or modality.
  Result<std::vector<uint32_t>> Numbers(const Field& field, uint64_t limit) const;
  // Reads the largest number under the keys.
  Result<std::optional<uint32_t>> FindLargest(ConfigKeys keys, uint64_t limit) const;
  // The same, but 0 if there is none.
  Result<uint32_t> Largest(ConfigKeys keys, uint64_t limit) const;
  Result<std::string> Text(const Json& object, const std::string& path, const char* key) const;
  Result<std::string> FirstArchitecture(const Json& object, const std::string& path) const;

  Status ReadNames(ModelConfig& config) const;
  Status ReadSizes(ModelConfig& config) const;
  Status ReadExperts(ModelConfig& config) const;
  Status ReadTopK(ModelConfig& config) const;
  Status ReadShared(ModelConfig& config) const;
  Status ReadRouting(StatedRouting& routing) const;
  Result<std::optional<Gating>> ReadGating() const;
  Result<std::optional<Gating>> ReadSoftmaxFlag() const;
  Status ReadQuantization(ModelConfig& config) const;

  const HfConfig& fields_;
};

Result<uint32_t> ConfigReader::Number(const Field& field, const Json& value, uint64_t limit) const {
  if (!value.is_number_unsigned() || value.get<uint64_t>() > limit) {
    return Wrong(field, Cat("a whole number from 0 to ", limit));
  }
  return value.get<uint32_t>();
}

Result<std::vector<uint32_t>> ConfigReader::Numbers(const Field& field, uint64_t limit) const {
  std::vector<uint32_t> numbers;
  if (!field.value->is_array()) {
    SHARD_TRY(const uint32_t number, Number(field, *field.value, limit));
    numbers.push_back(number);
    return numbers;
  }
  if (field.value->empty() || field.value->size() > kMaxModelCount) {
    return Wrong(field, "a list of numbers");
  }
  for (const Json& value : *field.value) {
    SHARD_TRY(const uint32_t number, Number(field, value, limit));
    numbers.push_back(number);
  }
  return numbers;
}

Result<std::optional<uint32_t>> ConfigReader::FindLargest(ConfigKeys keys, uint64_t limit) const {
  const std::optional<Field> field = Find(keys);
  if (!field) return std::optional<uint32_t>();
  SHARD_TRY(const std::vector<uint32_t> numbers, Numbers(*field, limit));
  return std::optional(*std::max_element(numbers.begin(), numbers.end()));
}

Result<uint32_t> ConfigReader::Largest(ConfigKeys keys, uint64_t limit) const {
  SHARD_TRY(const std::optional<uint32_t> largest, FindLargest(keys, limit));
  return largest.value_or(0);
}

Result<std::string> ConfigReader::Text(const Json& object, const std::string& path,
                                       const char* key) const {
  const Json* value = FindMember(object, key);
  if (value == nullptr || value->is_null()) return std::string();
  if (!value->is_string()) return Wrong({value, path + key}, "a string");
  return value->get<std::string>();
}

Result<std::string> ConfigReader::FirstArchitecture(const Json& object,
                                                    const std::string& path) const {
  const Json* list = FindMember(object, "architectures");
  if (list == nullptr || list->is_null()) return std::string();
  if (!list->is_array() || (!list->empty() && !list->front().is_string())) {
    return Wrong({list, path + "architectures"}, "a list of names");
  }
  return list->empty() ? std::string() : list->front().get<std::string>();
}

Status ConfigReader::ReadNames(ModelConfig& config) const {
  SHARD_TRY(config.architecture, FirstArchitecture(fields_.root(), ""));
  SHARD_TRY(config.model_type, Text(fields_.root(), "", "model_type"));
  const std::optional<Field> text = fields_.NestedText();
  if (!text) return Ok();
  SHARD_TRY(config.text_architecture, FirstArchitecture(*text->value, text->path));
  SHARD_TRY(config.text_model_type, Text(*text->value, text->path, "model_type"));
  return Ok();
}

Status ConfigReader::ReadSizes(ModelConfig& config) const {
  SHARD_TRY(config.layers, Largest(fields::kLayers, kMaxLayers));
  SHARD_TRY(config.mtp_layers, Largest(fields::kMtpLayers, kMaxModelCount));
  SHARD_TRY(config.hidden_size, Largest(fields::kHiddenSize, kMaxModelWidth));
  SHARD_TRY(config.vocab_size, Largest(fields::kVocabulary, kMaxModelWidth));
  return Ok();
}

Status ConfigReader::ReadExperts(ModelConfig& config) const {
  // Gemma 4 switches the block off in dense models of the family.
  const std::optional<Field> enabled = Find({"enable_moe_block"});
  if (enabled && !enabled->value->is_boolean()) return Wrong(*enabled, "true or false");
  if (enabled && !enabled->value->get<bool>()) return Ok();
  const std::optional<Field> field = Find(fields::kExperts);
  if (!field) return Ok();
  SHARD_TRY(const std::vector<uint32_t> numbers, Numbers(*field, kMaxModelCount));
  if (field->value->is_array() && numbers.size() != config.layers) {
    return Error{Code::kUnsupported,
                 Cat(fields_.where(), ": ", field->path, ": expected one pool of experts, found ",
                     numbers.size(), " pools (one per modality), which cannot be split together")};
  }
  if (field->value->is_array()) config.experts_per_layer = numbers;
  config.expert_count = *std::max_element(numbers.begin(), numbers.end());
  config.expert_count_key = field->path;
  SHARD_TRY(config.expert_intermediate_size, Largest(fields::ExpertWidth(fields_), kMaxModelWidth));
  return Ok();
}

Status ConfigReader::ReadTopK(ModelConfig& config) const {
  if (config.expert_count == 0) return Ok();
  const std::optional<Field> field = Find(fields::kTopK);
  if (!field) return Ok();
  SHARD_TRY(const std::vector<uint32_t> numbers, Numbers(*field, kMaxModelCount));
  // The one number for the whole model must cover every layer.
  config.top_k = *std::max_element(numbers.begin(), numbers.end());
  if (config.top_k > config.expert_count) {
    return Wrong(*field, Cat("at most the number of experts (", config.expert_count, ")"));
  }
  if (config.top_k == 0) return Wrong(*field, "at least one expert per token");
  if (!field->value->is_array()) return Ok();
  if (numbers.size() != config.layers) {
    return Wrong(*field, Cat("one number per layer (", config.layers, ")"));
  }
  config.top_k_per_layer = numbers;
  return Ok();
}

Status ConfigReader::ReadShared(ModelConfig& config) const {
  SHARD_TRY(config.shared_experts, Largest(fields::kSharedExperts, kMaxModelCount));
  // Qwen2-MoE gives only the width of its one shared expert.
  if (Find(fields::kSharedExperts)) return Ok();
  SHARD_TRY(const uint32_t width, Largest(fields::kSharedWidth, kMaxModelWidth));
  config.shared_experts = width > 0 ? 1 : 0;
  return Ok();
}

Status ConfigReader::ReadRouting(StatedRouting& routing) const {
  SHARD_TRY(routing.groups, FindLargest(fields::kExpertGroups, kMaxModelCount));
  SHARD_TRY(routing.groups_used, FindLargest(fields::kExpertGroupsUsed, kMaxModelCount));
  SHARD_TRY(routing.gating, ReadGating());
  if (const auto field = Find(fields::kNormalize)) {
    // DBRX gives the order of the norm; 1 means dividing by the sum.
    const bool order =
        field->value->is_number() && field->path.ends_with("moe_normalize_expert_weights");
    if (!field->value->is_boolean() && !order) {
      return Wrong(*field, "true or false");
    }
    routing.normalize =
        field->value->is_boolean() ? field->value->get<bool>() : field->value->get<double>() != 0;
  }
  if (const auto field = Find(fields::kScale)) {
    if (!field->value->is_number()) return Wrong(*field, "a number");
    routing.scale = field->value->get<double>();
    if (std::abs(*routing.scale) > std::numeric_limits<float>::max()) {
      return Wrong(*field, "a number that fits 32-bit floating point");
    }
  }
  return Ok();
}

// SmallThinker says whether weights are a softmax of the chosen logits or their sigmoids.
Result<std::optional<Gating>> ConfigReader::ReadSoftmaxFlag() const {
  SHARD_TRY(const std::optional<bool> softmax,
            fields_.FindBool({"moe_primary_router_apply_softmax"}));
  if (!softmax) return std::optional<Gating>();
  return std::optional(*softmax ? Gating::kSoftmax : Gating::kSigmoid);
}

// Refuses a function that we do not know, because guessing another would route tokens wrongly.
Result<std::optional<Gating>> ConfigReader::ReadGating() const {
  const std::optional<Field> field = Find(fields::kGating);
  if (!field) return ReadSoftmaxFlag();
  if (!field->value->is_string()) return Wrong(*field, "a string");
  const std::optional<Gating> gating = FindConfigGating(field->value->get<std::string>());
  if (gating) return gating;
  Error error = Wrong(*field, GatingNames());
  error.code = Code::kUnsupported;
  return error;
}

// Returns the smallest width of weights in the groups of compressed-tensors. In a mixed model only
// the smallest are packed; 8-bit values are stored one per byte.
uint32_t SmallestGroupBits(const Json& groups) {
  uint32_t smallest = 0;
  for (const auto& [name, group] : groups.items()) {
    const Json* weights = group.is_object() ? ObjectMember(group, "weights") : nullptr;
    const Json* bits = weights == nullptr ? nullptr : FindMember(*weights, "num_bits");
    if (bits == nullptr || !bits->is_number_unsigned() || bits->get<uint64_t>() > 64) continue;
    const auto width = bits->get<uint32_t>();
    if (smallest == 0 || width < smallest) smallest = width;
  }
  return smallest;
}

Status ConfigReader::ReadQuantization(ModelConfig& config) const {
  // DeepSeek-V4 packs its experts in FP4, whatever quantization_config says about the rest.
  if (const auto field = Find({"expert_dtype"})) {
    if (*field->value == "fp4") config.quant_bits = 4;
  }
  const std::optional<Field> field = Find(fields::kQuantization);
  if (!field) return Ok();
  if (!field->value->is_object()) return Wrong(*field, "an object");
  const Json& quantization = *field->value;
  SHARD_TRY(config.quant_method, Text(quantization, field->path + ".", "quant_method"));
  if (config.quant_bits != 0) return Ok();
  if (const Json* groups = ObjectMember(quantization, "config_groups")) {
    config.quant_bits = SmallestGroupBits(*groups);
  }
  for (const char* key : fields::kPackedBits) {
    const Json* bits = FindMember(quantization, key);
    if (config.quant_bits != 0 || bits == nullptr || bits->is_null()) continue;
    SHARD_TRY(config.quant_bits, Number({bits, Cat(field->path, ".", key)}, *bits, 64));
  }
  return Ok();
}

Result<ModelConfig> ConfigReader::Read() {
  ModelConfig config;
  SHARD_CHECK(ReadNames(config));
  SHARD_CHECK(ReadSizes(config));
  SHARD_CHECK(ReadExperts(config));
  SHARD_CHECK(ReadTopK(config));
  SHARD_CHECK(ReadShared(config));
  SHARD_CHECK(ReadRouting(config.routing));
  SHARD_CHECK(ReadQuantization(config));
  return config;
}

}  // namespace

Routing ResolveRouting(const Family& family, const ModelConfig& config) {
  const Routing* usual = &family.routing;
  for (const RoutingException& exception : family.routing_exceptions) {
    if (!config.model_type.starts_with(exception.model_type) &&
        !config.text_model_type.starts_with(exception.model_type)) {
      continue;
    }
    usual = &exception.routing;
    break;
  }
  Routing routing = Overlay(*usual, config.routing);
  routing.expert_count = config.expert_count;
  routing.top_k = config.top_k;
  return routing;
}

std::span<const char* const> ExpertCountKeys() {
  return {fields::kExperts.begin(), fields::kExperts.size()};
}

Result<ModelConfig> ParseModelConfig(const std::string& where, std::string_view text) {
  SHARD_TRY(const HfConfig config, HfConfig::Parse(where, text));
  return ConfigReader(config).Read();
}

}  // namespace moepack
