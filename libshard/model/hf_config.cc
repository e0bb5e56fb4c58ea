#include "libshard/model/hf_config.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "libshard/base/files/file.h"
#include "libshard/base/text/python_json.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/layer_fields.h"

namespace moepack {
namespace {

// No config nests deeper; the bound ends a hostile chain.
constexpr int kMaxNesting = 4;
constexpr size_t kMaxListed = 1u << 20;
constexpr std::array kTextConfigs = {"text_config", "llm_config", "language_config",
                                     "thinker_config"};

constexpr const char* kFeedForwardConfig = "ffn_config";

const Json* Member(const Json& object, const char* key) {
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

// The sizes that a block's own config may have.
const ConfigKeys kBlockSizes[] = {fields::kExperts, fields::kTopK, fields::kExpertWidth,
                                  fields::kLatentWidth, fields::kSharedWidth};

// The word for what a block is; null if it has none.
const Json* KindOf(const Json& block) {
  if (!block.is_object()) return nullptr;
  for (const char* name : fields::kBlockKinds) {
    const Json* const kind = Member(block, name);
    if (kind != nullptr && kind->is_string()) return kind;
  }
  return nullptr;
}

// Adds the field to `out`: one number if all blocks that have it agree and `config` does not say it
// itself, otherwise a list in which 0 stands for a block without it.
void AddBlockSize(const Json& config, const Json& blocks, const char* name, Json& out) {
  Json list = Json::array();
  const Json* first = nullptr;
  bool equal = true;
  for (const Json& block : blocks) {
    const Json* const size = Member(block, name);
    list.push_back(size == nullptr ? Json(0u) : *size);
    if (size == nullptr) continue;
    if (first == nullptr) first = size;
    equal = equal && *size == *first;
  }
  if (first == nullptr) return;
  const Json* const said = Member(config, name);
  if (equal && (said == nullptr || *said == *first)) {
    if (said == nullptr) out[name] = *first;
    return;
  }
  out[name] = std::move(list);
}

// Refuses configs of single blocks of which only some say what the block is. Other models have
// lists of this name, in which no block says it.
Status CheckBlocks(const HfConfig& config, const Json& text, const std::string& at) {
  const std::string name = at + *fields::kBlockConfigs.begin();
  const Json* const blocks = Member(text, *fields::kBlockConfigs.begin());
  if (blocks == nullptr) return Ok();
  if (!blocks->is_array()) return config.Wrong({blocks, name}, "a list of objects");
  const auto says = [](const Json& block) { return KindOf(block) != nullptr; };
  const auto silent = std::find_if_not(blocks->begin(), blocks->end(), says);
  if (silent == blocks->end() || std::none_of(blocks->begin(), blocks->end(), says)) return Ok();
  const Json* const kind = silent->is_object() ? Member(*silent, "block_type") : nullptr;
  return Error{Code::kCorrupt, Cat(config.where(), ": ", name, "[", silent - blocks->begin(),
                                   "].block_type: expected a word, found ",
                                   kind != nullptr ? DescribeJson(*kind) : "none")};
}

// Returns what the configs of single blocks say, as fields for the whole model; null if the config
// has none.
std::shared_ptr<const Json> FieldsOfBlocks(const Json& config) {
  const Json* const blocks = Member(config, *fields::kBlockConfigs.begin());
  if (blocks == nullptr || !blocks->is_array() || blocks->empty()) return nullptr;
  const auto has_kind = [](const Json& block) { return KindOf(block) != nullptr; };
  if (blocks->size() > kMaxListed || !std::all_of(blocks->begin(), blocks->end(), has_kind))
    return nullptr;
  Json out = Json::object();
  for (const Json& block : *blocks) out["block_type"].push_back(*KindOf(block));
  for (const ConfigKeys keys : kBlockSizes) {
    for (const char* name : keys) AddBlockSize(config, *blocks, name, out);
  }
  return std::make_shared<const Json>(std::move(out));
}

// Returns a pointer into `document` that keeps the document alive.
std::shared_ptr<const Json> Inside(const std::shared_ptr<const Json>& document, const Json* value) {
  return {document, value};
}

}  // namespace

Result<HfConfig> HfConfig::Parse(const std::string& where, std::string_view text) {
  SHARD_TRY(Json parsed, ParsePythonJson(where, text));
  if (!parsed.is_object()) {
    return Error{Code::kCorrupt,
                 Cat(where, ": expected a JSON object, found ", DescribeJson(parsed))};
  }
  const auto document = std::make_shared<const Json>(std::move(parsed));
  HfConfig config;
  config.where_ = where;
  config.scopes_ = {{document, ""}};
  for (int depth = 0; depth < kMaxNesting; ++depth) {
    const Scope outer = config.scopes_.front();
    for (const char* name : kTextConfigs) {
      const Json* const inner = Member(*outer.fields, name);
      if (inner != nullptr && !inner->is_object())
        return config.Wrong({inner, outer.path + name}, "an object");
    }
    const auto key = std::find_if(kTextConfigs.begin(), kTextConfigs.end(), [&](const char* name) {
      const Json* inner = Member(*outer.fields, name);
      return inner != nullptr && inner->is_object();
    });
    if (key == kTextConfigs.end()) break;
    const Scope inner = {Inside(document, Member(*outer.fields, *key)), Cat(outer.path, *key, ".")};
    config.scopes_.insert(config.scopes_.begin(), inner);
  }
  // DBRX keeps its expert counts in a separate config for the feed-forward part.
  const Scope text_scope = config.scopes_.front();
  const Json* feed_forward = Member(*text_scope.fields, kFeedForwardConfig);
  if (feed_forward != nullptr && feed_forward->is_object()) {
    config.scopes_.insert(config.scopes_.begin(), {Inside(document, feed_forward),
                                                   Cat(text_scope.path, kFeedForwardConfig, ".")});
  }
  SHARD_CHECK(CheckBlocks(config, *text_scope.fields, text_scope.path));
  if (auto blocks = FieldsOfBlocks(*text_scope.fields)) {
    config.scopes_.insert(
        config.scopes_.begin(),
        {std::move(blocks), Cat(text_scope.path, *fields::kBlockConfigs.begin(), ".")});
  }
  return config;
}

Result<HfConfig> HfConfig::WithDefaults(std::string_view json) const {
  HfConfig config = *this;
  if (json.empty()) return config;
  SHARD_TRY(Json parsed, ParsePythonJson("defaults", json));
  config.defaults_ = std::make_shared<const Json>(std::move(parsed));
  return config;
}

std::optional<HfConfig::Field> HfConfig::Find(ConfigKeys keys) const {
  for (const Scope& scope : scopes_) {
    for (const char* key : keys) {
      if (const Json* value = Member(*scope.fields, key)) return Field{value, scope.path + key};
    }
  }
  for (const char* key : keys) {
    const Json* value = defaults_ == nullptr ? nullptr : Member(*defaults_, key);
    if (value != nullptr) return Field{value, key};
  }
  return std::nullopt;
}

// The outermost scope first: a wrapper's name and its special tokens are those of the whole model.
std::optional<HfConfig::Field> HfConfig::FindAtRoot(ConfigKeys keys) const {
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    for (const char* key : keys) {
      if (const Json* value = Member(*scope->fields, key)) return Field{value, scope->path + key};
    }
  }
  return std::nullopt;
}

std::optional<HfConfig::Field> HfConfig::NestedText() const {
  for (const Scope& scope : scopes_) {
    if (scope.path.empty()) break;
    if (!scope.path.ends_with(Cat(kFeedForwardConfig, ".")) &&
        !scope.path.ends_with(Cat(*fields::kBlockConfigs.begin(), "."))) {
      return Field{scope.fields.get(), scope.path};
    }
  }
  return std::nullopt;
}

Error HfConfig::Wrong(const Field& field, const std::string& expected) const {
  return {Code::kCorrupt, Cat(where_, ": ", field.path, ": expected ", expected, ", found ",
                              DescribeJson(*field.value))};
}

Error HfConfig::Missing(ConfigKeys keys, const std::string& expected) const {
  std::string names;
  for (const char* key : keys) names += Cat(names.empty() ? "" : " or ", key);
  return {Code::kCorrupt, Cat(where_, ": ", names, ": expected ", expected, ", found nothing")};
}

Result<std::vector<uint32_t>> HfConfig::FindU32s(ConfigKeys keys) const {
  std::vector<uint32_t> numbers;
  const std::optional<Field> field = Find(keys);
  if (!field) return numbers;
  const auto add = [&](const Json& value) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() > UINT32_MAX) return false;
    numbers.push_back(value.get<uint32_t>());
    return true;
  };
  const Json& value = *field->value;
  const bool good = !value.is_array() ? add(value)
                                      : value.size() <= kMaxListed &&
                                            std::all_of(value.begin(), value.end(), add);
  if (good) return numbers;
  return Wrong(*field, Cat("whole numbers from 0 to ", UINT32_MAX));
}

Result<std::optional<uint32_t>> HfConfig::FindSameU32(ConfigKeys keys) const {
  const std::optional<Field> field = Find(keys);
  if (!field || !field->value->is_array()) return FindU32(keys);
  SHARD_TRY(const std::vector<uint32_t> numbers, FindU32s(keys));
  if (numbers.empty()) return Wrong(*field, "a number, or one for each layer");
  for (const uint32_t number : numbers) {
    if (number == numbers.front()) continue;
    return Error{Code::kUnsupported,
                 Cat(where_, ": ", field->path, ": expected one number for all layers, found ",
                     numbers.front(), " and ", number)};
  }
  return std::optional(numbers.front());
}

Result<std::optional<uint32_t>> HfConfig::FindU32(ConfigKeys keys) const {
  const std::optional<Field> field = Find(keys);
  if (!field) return std::optional<uint32_t>();
  if (!field->value->is_number_unsigned() || field->value->get<uint64_t>() > UINT32_MAX) {
    return Wrong(*field, Cat("a whole number from 0 to ", UINT32_MAX));
  }
  return std::optional(field->value->get<uint32_t>());
}

Result<std::optional<float>> HfConfig::FindF32(ConfigKeys keys) const {
  const std::optional<Field> field = Find(keys);
  if (!field) return std::optional<float>();
  const double value = field->value->is_number() ? field->value->get<double>()
                                                 : std::numeric_limits<double>::infinity();
  if (std::abs(value) > std::numeric_limits<float>::max()) {
    return Wrong(*field, "a number that fits 32-bit floating point");
  }
  return std::optional(static_cast<float>(value));
}

Result<std::vector<float>> HfConfig::FindF32s(ConfigKeys keys) const {
  std::vector<float> numbers;
  const std::optional<Field> field = Find(keys);
  if (!field) return numbers;
  const auto add = [&](const Json& value) {
    const double number = value.is_number() ? value.get<double>() : 0;
    numbers.push_back(static_cast<float>(number));
    return value.is_number() && std::abs(number) <= std::numeric_limits<float>::max();
  };
  const Json& list = *field->value;
  const bool good =
      list.is_array() && list.size() <= kMaxListed && std::all_of(list.begin(), list.end(), add);
  if (good) return numbers;
  return Wrong(*field, "a list of numbers that fit 32-bit floating point");
}

Result<std::optional<bool>> HfConfig::FindBool(ConfigKeys keys) const {
  const std::optional<Field> field = Find(keys);
  if (!field) return std::optional<bool>();
  if (!field->value->is_boolean()) return Wrong(*field, "true or false");
  return std::optional(field->value->get<bool>());
}

Result<std::optional<std::string>> HfConfig::FindString(ConfigKeys keys) const {
  const std::optional<Field> field = Find(keys);
  if (!field) return std::optional<std::string>();
  if (!field->value->is_string()) return Wrong(*field, "a string");
  return std::optional(field->value->get<std::string>());
}

Result<uint32_t> HfConfig::U32(ConfigKeys keys) const {
  SHARD_TRY(const std::optional<uint32_t> number, FindU32(keys));
  if (number) return *number;
  return Missing(keys, "a whole number");
}

Result<float> HfConfig::F32(ConfigKeys keys) const {
  SHARD_TRY(const std::optional<float> number, FindF32(keys));
  if (number) return *number;
  return Missing(keys, "a number");
}

Result<HfConfig> HfConfig::Within(const char* key) const {
  const std::optional<Field> field = Find({key});
  if (!field) return Missing({key}, "an object");
  if (!field->value->is_object()) return Wrong(*field, "an object");
  HfConfig inner;
  inner.where_ = where_;
  inner.scopes_ = {{std::make_shared<const Json>(*field->value), field->path + "."}};
  return inner;
}

Result<HfConfig> HfConfig::Rope() const {
  const std::optional<Field> field = Find(fields::kRope);
  Json flat = Json::object();
  for (const ConfigKeys keys : {fields::kRopeBase, fields::kRotatedPart}) {
    if (const std::optional<Field> outer = Find(keys)) flat[*keys.begin()] = *outer->value;
  }
  if (field) {
    if (!field->value->is_object()) return Wrong(*field, "an object");
    for (const auto& [key, value] : field->value->items()) {
      if (value.is_object()) {
        return Error{Code::kUnsupported,
                     Cat(where_, ": ", field->path, ": expected one set of rope parameters, found ",
                         "a set for each kind of layer (", Quoted(key), ")")};
      }
      if (!value.is_null()) flat[key == "type" ? "rope_type" : key] = value;
    }
  }
  HfConfig rope;
  rope.where_ = where_;
  const std::string path = field ? field->path + "." : "";
  rope.scopes_ = {{std::make_shared<const Json>(std::move(flat)), path}};
  return rope;
}

}  // namespace moepack
