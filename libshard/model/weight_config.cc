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
    Error error = Wrong(key, expected);
    return {Code::kUnsupported, std::move(error.message), kHint};
  }
};

Result<std::string> Text(const Object& object, const char* key) {
  const Json* value = object.Find(key);
  if (value == nullptr) return std::string();
  if (!value->is_string()) return object.Wrong(key, "a text");
  return value->get<std::string>();
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

Status ReadBlocks(const Object& object, const char* key, WeightConfig& out) {
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
Status ReadGroupSize(const Object& object, WeightConfig& out) {
  const Json* value = object.Find("group_size");
  // An unsigned number is an integer, too, and 2^64 - 1 would become -1.
  const bool negative =
      value != nullptr && value->is_number_integer() && !value->is_number_unsigned();
  if (value == nullptr || (negative && value->get<int64_t>() == -1)) return Ok();
  if (!IsBlockLength(*value)) return object.Wrong("group_size", Cat("-1, or 1 to ", kMaxBlock));
  out.group_size = *value;
  return Ok();
}

Status ReadBits(const Object& object, const char* key, WeightConfig& out) {
  const Json* value = object.Find(key);
  for (const uint32_t bits : {2u, 4u, 8u}) {
    if (value != nullptr && *value == bits) out.bits = bits;
  }
  if (out.bits != 0) return Ok();
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

// Returns the only group of weights. With two groups, the config alone does not say which weight is
// in which.
Result<Object> OnlyGroup(const Object& object) {
  const Json* groups = object.Find("config_groups");
  if (groups == nullptr || !groups->is_object() || groups->size() != 1) {
    Error error{Code::kUnsupported,
                Cat(object.config.where(), ": ", object.path, ".config_groups: expected one, ",
                    "found ", groups == nullptr ? 0 : groups->size()),
                kHint};
    return error;
  }
  const auto group = groups->begin();
  const std::string path =
      Cat(object.path, ".config_groups.", Shown(group.key().substr(0, kMostOfAName)));
  const auto weights = group->is_object() ? group->find("weights") : group->end();
  if (!group->is_object() || weights == group->end() || !weights->is_object()) {
    return Error{Code::kCorrupt, Cat(object.config.where(), ": ", path,
                                     ".weights: expected an object, found none")};
  }
  return Object{object.config, *weights, path + ".weights"};
}

Status ReadCompressed(const Object& object, WeightConfig& out) {
  SHARD_TRY(out.format, Text(object, "format"));
  SHARD_TRY(const Object weights, OnlyGroup(object));
  if (out.format == "nvfp4-pack-quantized") return Ok();  // the format says everything
  const bool packed = out.format == "pack-quantized";
  if (!packed && out.format != "float-quantized" && out.format != "naive-quantized") {
    const std::string expected =
        "pack-quantized, float-quantized, naive-quantized or nvfp4-pack-quantized";
    if (object.Find("format") != nullptr) return object.Unsupported("format", expected);
    return Error{Code::kUnsupported, Cat(object.config.where(), ": ", object.path,
                                         ".format: expected ", expected, ", found none")};
  }
  SHARD_TRY(const std::string type, Text(weights, "type"));
  if (!type.empty() && type != (packed ? "int" : "float")) {
    return weights.Unsupported("type", packed ? "int" : "float");
  }
  if (!packed) return ReadBlocks(weights, "block_structure", out);
  SHARD_CHECK(ReadBits(weights, "num_bits", out));
  SHARD_TRY(out.symmetric, Flag(weights, "symmetric", true));
  return ReadGroupSize(weights, out);
}

Status ReadGptq(const Object& object, WeightConfig& out) {
  SHARD_CHECK(ReadBits(object, object.NameOf(fields::kPackedBits), out));
  SHARD_CHECK(ReadGroupSize(object, out));
  SHARD_TRY(const std::string format, Text(object, "checkpoint_format"));
  if (!format.empty() && format != "gptq" && format != "gptq_v2") {
    return object.Unsupported("checkpoint_format", "gptq or gptq_v2");
  }
  // AutoGPTQ stored zero points minus one; GPTQModel's second format stores them as they are.
  out.zeros_less_one = format != "gptq_v2";
  out.symmetric = false;  // zero points are stored nevertheless
  return Ok();
}

Status ReadAwq(const Object& object, WeightConfig& out) {
  SHARD_CHECK(ReadBits(object, object.NameOf(fields::kPackedBits), out));
  SHARD_CHECK(ReadGroupSize(object, out));
  SHARD_TRY(const std::string version, Text(object, "version"));
  if (!version.empty() && Lower(version) != "gemm") return object.Unsupported("version", "gemm");
  // The order in which AWQ interleaves values in a word is defined for eight of them alone.
  if (out.bits != 4) return object.Unsupported(object.NameOf(fields::kPackedBits), "4");
  out.symmetric = false;
  return Ok();
}

}  // namespace

Result<WeightConfig> ReadWeightConfig(const HfConfig& config) {
  WeightConfig out;
  const auto field = config.Find(fields::kQuantization);
  if (!field) return out;
  if (!field->value->is_object()) return config.Wrong(*field, "an object");
  const Object object{config, *field->value, field->path};
  SHARD_TRY(out.method, Text(object, "quant_method"));
  Status status = Ok();
  if (out.method == "fp8") {
    status = ReadFp8(object, out);
  } else if (out.method == "compressed-tensors") {
    status = ReadCompressed(object, out);
  } else if (out.method == "gptq") {
    status = ReadGptq(object, out);
  } else if (out.method == "awq") {
    status = ReadAwq(object, out);
  } else if (!out.method.empty() && out.method != "mxfp4" && out.method != "modelopt") {
    status =
        object.Unsupported("quant_method", "fp8, compressed-tensors, mxfp4, modelopt, gptq or awq");
  }
  SHARD_CHECK(std::move(status));
  return out;
}

}  // namespace moepack
