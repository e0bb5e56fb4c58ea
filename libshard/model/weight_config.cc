#include "libshard/model/weight_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "libshard/model/config_fields.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxBlock = 1u << 20;
constexpr size_t kMostOfAName = 200;  // bytes, in a message
constexpr const char* kHint =
    "safetensors output (--format safetensors) keeps weights in any format as they are";

// One object of the config and its path.
struct Object {
  const HfConfig& config;
  const Json& fields;
  std::string path;

  const Json* Find(const char* key) const {
    const auto at = fields.find(key);
    return at == fields.end() || at->is_null() ? nullptr : &*at;
  }
  // Returns the first of the names that the object has; the first of all if it has none.
  const char* NameOf(ConfigKeys keys) const {
    const auto at = std::find_if(keys.begin(), keys.end(),
                                 [&](const char* key) { return Find(key) != nullptr; });
    return at == keys.end() ? *keys.begin() : *at;
  }
  Error Wrong(const char* key, const std::string& expected) const {
    return config.Wrong({Find(key), Cat(path, ".", key)}, expected);
  }
  Error Unsupported(const char* key, const std::string& expected) const {
    std::string message =
        Cat(config.where(), ": ", path, ".", key, ": expected ", expected, ", found none");
    if (Find(key) != nullptr) message = Wrong(key, expected).message;
    return {Code::kUnsupported, std::move(message), kHint};
  }
};

Result<std::string> Text(const Object& object, const char* key) {
  const Json* value = object.Find(key);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return object.Wrong(key, "a text");
  return value->get<std::string>();
}

// "a, b or c".
std::string AnyOf(std::vector<std::string> words) {
  if (words.size() < 2) return Join(words, "");
  const std::string last = std::move(words.back());
  words.pop_back();
  return Cat(Join(words, ", "), " or ", last);
}

// kUnsupported unless the text is one of these.
Status CheckText(const Object& object, const char* key,
                 std::initializer_list<std::string_view> allowed) {
  SHARD_TRY(const std::string text, Text(object, key));
  if (std::find(allowed.begin(), allowed.end(), text) != allowed.end()) return Ok();
  return object.Unsupported(key, AnyOf({allowed.begin(), allowed.end()}));
}

Result<bool> Flag(const Object& object, const char* key, bool usual) {
  const Json* value = object.Find(key);
  if (value == nullptr) return usual;
  if (!value->is_boolean()) return object.Wrong(key, "true or false");
  return value->get<bool>();
}

bool IsBlockLength(const Json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() > 0 &&
         value.get<uint64_t>() <= kMaxBlock;
}

Status ReadBlocks(const Object& object, const char* key, WeightForm& out) {
  const Json* value = object.Find(key);
  if (value == nullptr) return Ok();
  if (!value->is_array() || value->size() != 2 || !IsBlockLength((*value)[0]) ||
      !IsBlockLength((*value)[1])) {
    return object.Wrong(key, Cat("two lengths of 1 to ", kMaxBlock));
  }
  out.block_rows = (*value)[0];
  out.block_columns = (*value)[1];
  return Ok();
}

// -1 and null mean that a whole row is one group.
Status ReadGroupSize(const Object& object, WeightForm& out) {
  const Json* value = object.Find("group_size");
  // An unsigned number is an integer, too, and 2^64 - 1 would become -1.
  const bool negative =
      value != nullptr && value->is_number_integer() && !value->is_number_unsigned();
  if (value == nullptr || (negative && value->get<int64_t>() == -1)) return Ok();
  if (!IsBlockLength(*value)) return object.Wrong("group_size", Cat("-1, or 1 to ", kMaxBlock));
  out.group_size = *value;
  return Ok();
}

Status ReadBits(const Object& object, const char* key, WeightForm& out) {
  const Json* value = object.Find(key);
  for (const uint32_t bits : {2u, 4u, 8u}) {
    if (value == nullptr || *value != bits) continue;
    out.bits = bits;
    return Ok();
  }
  if (value != nullptr) return object.Unsupported(key, "2, 4 or 8");
  return Error{Code::kCorrupt, Cat(object.config.where(), ": ", object.path, ".", key,
                                   ": expected 2, 4 or 8, ", "found none")};
}

// Reads the modules that have plain weights.
Status ReadUnquantized(const Object& object, WeightConfig& out) {
  const char* key = object.NameOf(fields::kUnquantized);
  const Json* list = object.Find(key);
  if (list == nullptr) return Ok();
  const bool good =
      list->is_array() && std::all_of(list->begin(), list->end(),
                                      [](const Json& module) { return module.is_string(); });
  if (!good) return object.Wrong(key, "a list of names of modules");
  for (const Json& module : *list) out.unquantized.push_back(module.get<std::string>());
  std::sort(out.unquantized.begin(), out.unquantized.end());
  return Ok();
}

Status ReadFp8(const Object& object, WeightConfig& out) {
  SHARD_CHECK(ReadBlocks(object, "weight_block_size", out));
  return ReadUnquantized(object, out);
}

// An object within this one. kCorrupt if there is something else.
Result<Object> Inner(const Object& object, const char* key) {
  const Json* value = object.Find(key);
  if (value == nullptr || !value->is_object()) {
    return Error{Code::kCorrupt, Cat(object.config.where(), ": ", object.path, ".", key,
                                     ": expected an object, found none")};
  }
  return Object{object.config, *value, Cat(object.path, ".", key)};
}

// A member of an object whose keys are names that the checkpoint's author chose.
Object Member(const Object& object, const Json::const_iterator& member) {
  return {object.config, *member,
          Cat(object.path, ".", Shown(member.key().substr(0, kMostOfAName)))};
}

// The formats of compressed-tensors.
enum class Codes : uint8_t { kPacked, kScaled, kNvfp4, kMxfp4 };
struct CompressedFormat {
  std::string_view name;
  Codes codes;
  std::string_view type;  // what weights.type must be; "" for any
};
constexpr CompressedFormat kCompressedFormats[] = {
    {"pack-quantized", Codes::kPacked, "int"},   {"float-quantized", Codes::kScaled, "float"},
    {"int-quantized", Codes::kScaled, "int"},    {"naive-quantized", Codes::kScaled, ""},
    {"nvfp4-pack-quantized", Codes::kNvfp4, ""}, {"mxfp4-pack-quantized", Codes::kMxfp4, ""}};

// Reads the format of a group, which may leave it to the whole section.
Result<const CompressedFormat*> FormatOf(const Object& section, const Object& group) {
  const Object& object = group.Find("format") != nullptr ? group : section;
  SHARD_TRY(const std::string name, Text(object, "format"));
  std::vector<std::string> names;
  for (const CompressedFormat& format : kCompressedFormats) {
    if (format.name == name) return &format;
    names.emplace_back(format.name);
  }
  return object.Unsupported("format", AnyOf(names));
}

Status ReadScaledGroup(const Object& weights, WeightForm& out) {
  SHARD_TRY(const std::string strategy, Text(weights, "strategy"));
  if (strategy != "group") return ReadBlocks(weights, "block_structure", out);
  SHARD_CHECK(ReadGroupSize(weights, out));
  if (out.group_size == 0) return Ok();
  out.block_rows = 1;
  out.block_columns = out.group_size;
  return Ok();
}

Result<WeightForm> ReadGroup(const Object& section, const Object& group) {
  WeightForm out;
  if (!group.fields.is_object()) {
    return Error{Code::kCorrupt, Cat(group.config.where(), ": ", group.path,
                                     ".weights: expected an object, found none")};
  }
  SHARD_TRY(const Object weights, Inner(group, "weights"));
  SHARD_TRY(const CompressedFormat* const format, FormatOf(section, group));
  out.format = format->name;
  SHARD_TRY(const std::string type, Text(weights, "type"));
  if (!type.empty() && !format->type.empty() && type != format->type) {
    return weights.Unsupported("type", std::string(format->type));
  }
  switch (format->codes) {
    case Codes::kNvfp4:
      break;  // the format says everything
    case Codes::kMxfp4:
      out.mxfp4 = true;
      break;
    case Codes::kScaled:
      out.integers = (format->type.empty() ? type : format->type) == "int";
      SHARD_CHECK(ReadScaledGroup(weights, out));
      break;
    case Codes::kPacked:
      SHARD_CHECK(ReadBits(weights, "num_bits", out));
      SHARD_TRY(out.symmetric, Flag(weights, "symmetric", true));
      SHARD_CHECK(ReadGroupSize(weights, out));
  }
  return out;
}

void AddOther(WeightForm form, WeightConfig& out) {
  const bool known = static_cast<const WeightForm&>(out) == form ||
                     std::find(out.others.begin(), out.others.end(), form) != out.others.end();
  if (!known) out.others.push_back(std::move(form));
}

// The first form is that of all modules, as long as there is no other.
void SetForms(std::vector<WeightForm> forms, WeightConfig& out) {
  if (forms.empty()) return;
  static_cast<WeightForm&>(out) = std::move(forms.front());
  for (size_t i = 1; i < forms.size(); ++i) AddOther(std::move(forms[i]), out);
}

Status ReadCompressed(const Object& object, WeightConfig& out) {
  const Json* groups = object.Find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->empty()) {
    return Error{Code::kUnsupported,
                 Cat(object.config.where(), ": ", object.path, ".config_groups: expected one, ",
                     "found ", groups == nullptr ? 0 : groups->size()),
                 kHint};
  }
  const Object parent{object.config, *groups, object.path + ".config_groups"};
  std::vector<WeightForm> forms;
  for (auto group = groups->begin(); group != groups->end(); ++group) {
    SHARD_TRY(WeightForm form, ReadGroup(object, Member(parent, group)));
    forms.push_back(std::move(form));
  }
  SetForms(std::move(forms), out);
  return Ok();
}

// What some modules have in place of the section's own numbers.
Result<WeightForm> ReadOverride(const Object& object, const WeightForm& usual) {
  WeightForm form = usual;
  if (object.Find("bits") != nullptr) SHARD_CHECK(ReadBits(object, "bits", form));
  if (object.Find("group_size") != nullptr) {
    form.group_size = 0;
    SHARD_CHECK(ReadGroupSize(object, form));
  }
  return form;
}

struct Pattern {
  std::string name;  // of modules
  Object object;
};

// The members of an object whose keys are patterns of module names; none if it is missing.
Result<std::vector<Pattern>> Patterns(const Object& object, const char* key) {
  std::vector<Pattern> out;
  if (object.Find(key) == nullptr) return out;
  SHARD_TRY(const Object patterns, Inner(object, key));
  for (auto at = patterns.fields.begin(); at != patterns.fields.end(); ++at) {
    out.push_back({at.key(), Member(patterns, at)});
    if (!at->is_object()) return patterns.config.Wrong({&*at, out.back().object.path}, "an object");
  }
  return out;
}

// GPTQModel's "dynamic". Patterns that begin with "-:" name modules that are not quantized.
Status ReadDynamic(const Object& object, WeightConfig& out) {
  SHARD_TRY(const std::vector<Pattern> patterns, Patterns(object, "dynamic"));
  for (const auto& [name, fields] : patterns) {
    if (name.starts_with("-:")) continue;
    SHARD_TRY(WeightForm form, ReadOverride(fields, out));
    AddOther(std::move(form), out);
  }
  return Ok();
}

Status ReadGptq(const Object& object, WeightConfig& out) {
  out.packing = WordPacking::kGptq;
  SHARD_CHECK(ReadBits(object, object.NameOf(fields::kPackedBits), out));
  SHARD_CHECK(ReadGroupSize(object, out));
  SHARD_TRY(const std::string format, Text(object, "checkpoint_format"));
  if (!format.empty() && format != "gptq" && format != "gptq_v2") {
    return object.Unsupported("checkpoint_format", "gptq or gptq_v2");
  }
  // AutoGPTQ stored zero points minus one; GPTQModel's second format stores them as they are.
  out.zeros_less_one = format != "gptq_v2";
  out.symmetric = false;  // zero points are stored nevertheless
  return ReadDynamic(object, out);
}

// The order in which AWQ interleaves values in a word is defined for eight of them alone.
constexpr uint32_t kAwqBits = 4;

Status SetAwqPacking(const Object& object, WeightConfig& out) {
  out.packing = WordPacking::kAwq;
  out.symmetric = false;
  if (out.bits == kAwqBits) return Ok();
  return object.Unsupported(object.NameOf(fields::kPackedBits), Cat(kAwqBits));
}

Status ReadAwq(const Object& object, WeightConfig& out) {
  SHARD_CHECK(ReadBits(object, object.NameOf(fields::kPackedBits), out));
  SHARD_CHECK(ReadGroupSize(object, out));
  SHARD_TRY(const std::string version, Text(object, "version"));
  if (!version.empty() && Lower(version) != "gemm") return object.Unsupported("version", "gemm");
  return SetAwqPacking(object, out);
}

// AutoRound packs like GPTQ or like AWQ. Its own packing is GPTQ's with zero points as they are.
struct AutoRoundPacking {
  std::string_view name;
  WordPacking packing;
  bool zeros_less_one;
};
constexpr AutoRoundPacking kAutoRoundPackings[] = {
    {"auto_round", WordPacking::kGptq, false},
    {"auto_round:auto_gptq", WordPacking::kGptq, true},
    {"auto_round:gptq", WordPacking::kGptq, true},
    {"auto_round:auto_awq", WordPacking::kAwq, false},
    {"auto_round:awq", WordPacking::kAwq, false}};
constexpr std::string_view kUsualAutoRoundPacking = "auto_round:auto_gptq";

Status CheckIntegers(const Object& object) {
  return object.Find("data_type") == nullptr ? Ok() : CheckText(object, "data_type", {"int"});
}

Status ReadAutoRoundPacking(const Object& object, WeightConfig& out) {
  SHARD_TRY(std::string name, Text(object, "packing_format"));
  if (name.empty()) name = kUsualAutoRoundPacking;
  std::vector<std::string> names;
  for (const AutoRoundPacking& packing : kAutoRoundPackings) {
    names.emplace_back(packing.name);
    if (packing.name != name) continue;
    if (packing.packing == WordPacking::kAwq) return SetAwqPacking(object, out);
    out.packing = packing.packing;
    out.zeros_less_one = packing.zeros_less_one;
    out.symmetric = false;  // zero points are stored nevertheless
    return Ok();
  }
  return object.Unsupported("packing_format", AnyOf(names));
}

bool IsUnquantized(const Object& object) {
  constexpr uint32_t kFewestFloatBits = 16;
  const Json* bits = object.Find("bits");
  return bits != nullptr && bits->is_number_unsigned() && *bits >= kFewestFloatBits;
}

Status ReadAutoRound(const Object& object, WeightConfig& out) {
  SHARD_CHECK(CheckIntegers(object));
  SHARD_CHECK(ReadBits(object, "bits", out));
  SHARD_CHECK(ReadGroupSize(object, out));
  SHARD_CHECK(ReadAutoRoundPacking(object, out));
  SHARD_TRY(const std::vector<Pattern> modules, Patterns(object, "extra_config"));
  for (const auto& [name, fields] : modules) {
    if (IsUnquantized(fields)) continue;
    SHARD_CHECK(CheckIntegers(fields));
    SHARD_TRY(WeightForm form, ReadOverride(fields, out));
    if (out.packing == WordPacking::kAwq && form.bits != kAwqBits)
      return fields.Unsupported("bits", Cat(kAwqBits));
    AddOther(std::move(form), out);
  }
  return Ok();
}

// A weight's data type in Quark: MXFP4, or FP8 with a scale per tensor or channel.
Status AddQuarkForm(const Object& object, std::vector<WeightForm>& forms) {
  constexpr uint64_t kMxGroup = 32;
  if (object.Find("weight") == nullptr) return Ok();  // not quantized
  if (!object.Find("weight")->is_object()) return object.Unsupported("weight", "one data type");
  SHARD_TRY(const Object weight, Inner(object, "weight"));
  SHARD_CHECK(CheckText(weight, "dtype", {"fp4", "fp8_e4m3"}));
  WeightForm form;
  SHARD_TRY(form.format, Text(weight, "dtype"));
  form.mxfp4 = form.format == "fp4";
  if (form.mxfp4) {
    SHARD_CHECK(CheckText(weight, "qscheme", {"per_group"}));
    SHARD_CHECK(CheckText(weight, "scale_format", {"e8m0"}));
    SHARD_CHECK(ReadGroupSize(weight, form));
    if (form.group_size != kMxGroup) return weight.Unsupported("group_size", Cat(kMxGroup));
  } else {
    SHARD_CHECK(CheckText(weight, "qscheme", {"per_tensor", "per_channel"}));
  }
  forms.push_back(std::move(form));
  return Ok();
}

Status ReadQuark(const Object& object, WeightConfig& out) {
  std::vector<WeightForm> forms;
  if (object.Find("global_quant_config") != nullptr) {
    SHARD_TRY(const Object usual, Inner(object, "global_quant_config"));
    SHARD_CHECK(AddQuarkForm(usual, forms));
  }
  for (const char* key : {"layer_type_quant_config", "layer_quant_config"}) {
    SHARD_TRY(const std::vector<Pattern> modules, Patterns(object, key));
    for (const auto& [name, fields] : modules) SHARD_CHECK(AddQuarkForm(fields, forms));
  }
  SetForms(std::move(forms), out);
  return Ok();
}

// MXFP4 of gpt-oss and ModelOpt's formats: the tensors say everything.
Status ReadNothing(const Object&, WeightConfig&) { return Ok(); }

struct Method {
  std::string_view name;  // quant_method
  Status (*read)(const Object& object, WeightConfig& out);
};
constexpr Method kMethods[] = {{"fp8", ReadFp8},
                               {"compressed-tensors", ReadCompressed},
                               {"mxfp4", ReadNothing},
                               {"modelopt", ReadNothing},
                               {"gptq", ReadGptq},
                               {"awq", ReadAwq},
                               {"auto-round", ReadAutoRound},
                               {"intel/auto-round", ReadAutoRound},
                               {"quark", ReadQuark}};

}  // namespace

Result<WeightConfig> ReadWeightConfig(const HfConfig& config) {
  WeightConfig out;
  const auto field = config.Find(fields::kQuantization);
  if (!field) return out;
  if (!field->value->is_object()) return config.Wrong(*field, "an object");
  const Object object{config, *field->value, field->path};
  SHARD_TRY(out.method, Text(object, "quant_method"));
  if (out.method.empty()) return out;
  std::vector<std::string> names;
  for (const auto& [name, read] : kMethods) {
    names.emplace_back(name);
    if (name != out.method) continue;
    SHARD_CHECK(read(object, out));
    return out;
  }
  return object.Unsupported("quant_method", AnyOf(names));
}

}  // namespace moepack
