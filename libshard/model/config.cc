#include "libshard/model/config.h"

#include <algorithm>
#include <initializer_list>
#include <nlohmann/json.hpp>

#include "libshard/base/file.h"
#include "libshard/base/json.h"
#include "libshard/base/limits.h"
#include "libshard/base/python_json.h"
#include "libshard/base/text.h"

namespace shard {
namespace {

constexpr uint64_t kMaxCount = 1u << 20;  // layers, experts
constexpr uint64_t kMaxWidth = 1u << 30;  // hidden sizes, vocabulary
constexpr uint64_t kMaxConfigBytes = 64u << 20;
constexpr int kMaxNesting = 4;

using Keys = std::initializer_list<const char*>;

constexpr Keys kExpertCountKeys = {"num_local_experts",  "num_experts",     "n_routed_experts",
                                   "num_routed_experts", "moe_num_experts", "num_moe_experts"};

// One object of the config whose fields count. The text model's own config comes first, what
// surrounds it after it.
struct Scope {
  const Json* fields;
  std::string path;  // "text_config.", "" for the root
};

struct Field {
  const Json* value;
  std::string path;
};

const Json* Member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

const Json* ObjectMember(const Json& object, const char* key) {
  const Json* member = Member(object, key);
  return member != nullptr && member->is_object() ? member : nullptr;
}

// Where multimodal models keep the text model's config; Qwen-Omni nests two of them.
std::vector<Scope> FindScopes(const Json& root) {
  std::vector<Scope> scopes = {{&root, ""}};
  for (int depth = 0; depth < kMaxNesting; ++depth) {
    const Scope outer = scopes.back();
    for (const char* key : {"text_config", "llm_config", "language_config", "thinker_config"}) {
      if (const Json* inner = ObjectMember(*outer.fields, key)) {
        scopes.push_back({inner, Cat(outer.path, key, ".")});
        break;
      }
    }
  }
  // DBRX keeps its expert counts in a config of the feed-forward.
  const Scope text = scopes.back();
  if (const Json* ffn = ObjectMember(*text.fields, "ffn_config")) {
    scopes.push_back({ffn, text.path + "ffn_config."});
  }
  std::reverse(scopes.begin(), scopes.end());
  return scopes;
}

class ConfigReader {
 public:
  ConfigReader(const std::string& where, const Json& root)
      : where_(where), root_(root), scopes_(FindScopes(root)) {}

  Result<ModelConfig> Read();

 private:
  // The first of `keys` that is there and not null, scope by scope.
  std::optional<Field> Find(Keys keys) const;
  Error Wrong(const Field& field, const std::string& expected) const;

  Result<uint32_t> Number(const Field& field, const Json& value, uint64_t limit) const;
  // A number, or a list with one number per layer or modality.
  Result<std::vector<uint32_t>> Numbers(const Field& field, uint64_t limit) const;
  // The largest number under the key; 0 when there is none.
  Result<uint32_t> Largest(Keys keys, uint64_t limit) const;
  Result<std::string> Text(const Json& object, const std::string& path, const char* key) const;
  Result<std::string> FirstArchitecture(const Json& object, const std::string& path) const;

  Status ReadNames(ModelConfig& config) const;
  Status ReadSizes(ModelConfig& config) const;
  Status ReadExperts(ModelConfig& config) const;
  Status ReadTopK(ModelConfig& config) const;
  Status ReadShared(ModelConfig& config) const;
  Status ReadRouting(ModelConfig& config) const;
  Status ReadQuantization(ModelConfig& config) const;

  const std::string& where_;
  const Json& root_;
  std::vector<Scope> scopes_;
};

std::optional<Field> ConfigReader::Find(Keys keys) const {
  for (const Scope& scope : scopes_) {
    for (const char* key : keys) {
      const Json* value = Member(*scope.fields, key);
      if (value != nullptr && !value->is_null()) return Field{value, scope.path + key};
    }
  }
  return std::nullopt;
}

Error ConfigReader::Wrong(const Field& field, const std::string& expected) const {
  return {Code::kCorrupt, Cat(where_, ": ", field.path, ": expected ", expected, ", found ",
                              DescribeJson(*field.value))};
}

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
  if (field.value->empty() || field.value->size() > kMaxCount) {
    return Wrong(field, "a list of numbers");
  }
  for (const Json& value : *field.value) {
    SHARD_TRY(const uint32_t number, Number(field, value, limit));
    numbers.push_back(number);
  }
  return numbers;
}

Result<uint32_t> ConfigReader::Largest(Keys keys, uint64_t limit) const {
  const std::optional<Field> field = Find(keys);
  if (!field) return 0u;
  SHARD_TRY(const std::vector<uint32_t> numbers, Numbers(*field, limit));
  return *std::max_element(numbers.begin(), numbers.end());
}

Result<std::string> ConfigReader::Text(const Json& object, const std::string& path,
                                       const char* key) const {
  const Json* value = Member(object, key);
  if (value == nullptr || value->is_null()) return std::string();
  if (!value->is_string()) return Wrong({value, path + key}, "a string");
  return value->get<std::string>();
}

Result<std::string> ConfigReader::FirstArchitecture(const Json& object,
                                                    const std::string& path) const {
  const Json* list = Member(object, "architectures");
  if (list == nullptr || list->is_null()) return std::string();
  if (!list->is_array() || (!list->empty() && !list->front().is_string())) {
    return Wrong({list, path + "architectures"}, "a list of names");
  }
  return list->empty() ? std::string() : list->front().get<std::string>();
}

Status ConfigReader::ReadNames(ModelConfig& config) const {
  SHARD_TRY(config.architecture, FirstArchitecture(root_, ""));
  SHARD_TRY(config.model_type, Text(root_, "", "model_type"));
  for (const Scope& scope : scopes_) {
    if (scope.fields == &root_ || scope.path.ends_with("ffn_config.")) continue;
    SHARD_TRY(config.text_architecture, FirstArchitecture(*scope.fields, scope.path));
    SHARD_TRY(config.text_model_type, Text(*scope.fields, scope.path, "model_type"));
    break;
  }
  return Ok();
}

Status ConfigReader::ReadSizes(ModelConfig& config) const {
  SHARD_TRY(config.layers,
            Largest({"num_hidden_layers", "n_layers", "num_layers", "n_layer"}, kMaxLayers));
  SHARD_TRY(config.mtp_layers, Largest({"num_nextn_predict_layers", "mtp_num_hidden_layers",
                                        "num_mtp_modules", "num_mtp_layers"},
                                       kMaxCount));
  SHARD_TRY(config.hidden_size, Largest({"hidden_size", "d_model", "n_embd"}, kMaxWidth));
  SHARD_TRY(config.vocab_size, Largest({"vocab_size"}, kMaxWidth));
  return Ok();
}

Status ConfigReader::ReadExperts(ModelConfig& config) const {
  // Gemma 4 switches the block off in dense models of the family.
  const std::optional<Field> enabled = Find({"enable_moe_block"});
  if (enabled && enabled->value->is_boolean() && !enabled->value->get<bool>()) return Ok();
  const std::optional<Field> field = Find(kExpertCountKeys);
  if (!field) return Ok();
  SHARD_TRY(const std::vector<uint32_t> numbers, Numbers(*field, kMaxCount));
  if (field->value->is_array() && numbers.size() != config.layers) {
    return Error{Code::kUnsupported,
                 Cat(where_, ": ", field->path, ": expected one pool of experts, found ",
                     numbers.size(), " pools (one per modality), which cannot be split together")};
  }
  if (field->value->is_array()) config.experts_per_layer = numbers;
  config.experts = *std::max_element(numbers.begin(), numbers.end());
  config.expert_count_key = field->path;
  SHARD_TRY(config.expert_intermediate_size,
            Largest({"moe_intermediate_size", "expert_intermediate_size", "moe_ffn_hidden_size",
                     "ffn_hidden_size", "intermediate_size"},
                    kMaxWidth));
  return Ok();
}

Status ConfigReader::ReadTopK(ModelConfig& config) const {
  if (config.experts == 0) return Ok();
  // Not "top_k": that is a sampling parameter which old configs keep beside the model's.
  const std::optional<Field> field =
      Find({"num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk",
            "moe_top_k", "moe_k", "top_k_experts", "moe_router_topk"});
  if (!field) return Ok();
  SHARD_TRY(const std::vector<uint32_t> numbers, Numbers(*field, kMaxCount));
  config.top_k = *std::max_element(numbers.begin(), numbers.end());
  if (config.top_k > config.experts) {
    return Wrong(*field, Cat("at most the number of experts (", config.experts, ")"));
  }
  if (!field->value->is_array()) return Ok();
  if (numbers.size() != config.layers) {
    return Wrong(*field, Cat("one number per layer (", config.layers, ")"));
  }
  config.top_k_per_layer = numbers;
  return Ok();
}

Status ConfigReader::ReadShared(ModelConfig& config) const {
  const Keys counts = {"n_shared_experts", "num_shared_experts", "num_shared_expert",
                       "moe_num_shared_experts"};
  SHARD_TRY(config.shared_experts, Largest(counts, kMaxCount));
  if (Find(counts)) return Ok();
  SHARD_TRY(const uint32_t width,
            Largest({"shared_expert_intermediate_size", "moe_shared_expert_intermediate_size",
                     "shared_intermediate_size", "share_expert_dim"},
                    kMaxWidth));
  config.shared_experts = width > 0 ? 1 : 0;
  return Ok();
}

Status ConfigReader::ReadRouting(ModelConfig& config) const {
  SHARD_TRY(config.expert_groups, Largest({"n_group"}, kMaxCount));
  SHARD_TRY(config.expert_groups_used, Largest({"topk_group"}, kMaxCount));
  if (const auto field = Find({"scoring_func", "score_function", "score_func",
                               "moe_router_score_function", "moe_router_activation"})) {
    if (!field->value->is_string()) return Wrong(*field, "a string");
    config.gating = Lower(field->value->get<std::string>());
    // dots.llm1 names the selection method where the function is meant.
    if (config.gating == "noaux_tc") config.gating = "sigmoid";
  }
  if (const auto field =
          Find({"norm_topk_prob", "norm_expert_weight", "moe_normalize_expert_weights"})) {
    // DBRX gives the order of the norm: 1 is the sum.
    if (!field->value->is_boolean() && !field->value->is_number()) {
      return Wrong(*field, "true or false");
    }
    config.normalize =
        field->value->is_boolean() ? field->value->get<bool>() : field->value->get<double>() != 0;
  }
  if (const auto field = Find(
          {"routed_scaling_factor", "moe_routed_scaling_factor", "moe_router_scaling_factor"})) {
    if (!field->value->is_number()) return Wrong(*field, "a number");
    config.scale = field->value->get<double>();
  }
  return Ok();
}

// The smallest width of weights in compressed-tensors groups: the packed ones, where 8-bit values
// of a mixed model are stored one per byte.
uint32_t SmallestGroupBits(const Json& groups) {
  uint32_t smallest = 0;
  for (const auto& [name, group] : groups.items()) {
    const Json* weights = group.is_object() ? ObjectMember(group, "weights") : nullptr;
    const Json* bits = weights == nullptr ? nullptr : Member(*weights, "num_bits");
    if (bits == nullptr || !bits->is_number_unsigned() || bits->get<uint64_t>() > 64) continue;
    const auto width = bits->get<uint32_t>();
    if (smallest == 0 || width < smallest) smallest = width;
  }
  return smallest;
}

Status ConfigReader::ReadQuantization(ModelConfig& config) const {
  // DeepSeek-V4 packs its experts in FP4 whatever quantization_config says of the rest.
  if (const auto field = Find({"expert_dtype"})) {
    if (*field->value == "fp4") config.quant_bits = 4;
  }
  const std::optional<Field> field = Find({"quantization_config", "quantization"});
  if (!field) return Ok();
  if (!field->value->is_object()) return Wrong(*field, "an object");
  const Json& quantization = *field->value;
  SHARD_TRY(config.quant_method, Text(quantization, field->path + ".", "quant_method"));
  if (config.quant_bits != 0) return Ok();
  if (const Json* groups = ObjectMember(quantization, "config_groups")) {
    config.quant_bits = SmallestGroupBits(*groups);
  }
  for (const char* key : {"bits", "w_bit"}) {
    const Json* bits = Member(quantization, key);
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
  SHARD_CHECK(ReadRouting(config));
  SHARD_CHECK(ReadQuantization(config));
  return config;
}

}  // namespace

std::span<const char* const> ExpertCountKeys() {
  return {kExpertCountKeys.begin(), kExpertCountKeys.size()};
}

Result<ModelConfig> ParseModelConfig(const std::string& where, std::string_view text) {
  SHARD_TRY(const Json root, ParsePythonJson(where, text));
  if (!root.is_object()) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected a JSON object, found ", DescribeJson(root))};
  }
  return ConfigReader(where, root).Read();
}

Result<ModelConfig> ReadModelConfig(const std::string& path) {
  SHARD_TRY(const std::string text, ReadTextFile(path, kMaxConfigBytes));
  return ParseModelConfig(path, text);
}

}  // namespace shard
