#include "libshard/check/promised_storage.h"

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/model/config_fields.h"
#include "libshard/model/weight_config.h"

namespace moepack {
namespace {

std::optional<std::string> DtypeOf(const std::string& word) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kWords = {
      {{"bfloat16", "BF16"}, {"float16", "F16"}, {"float32", "F32"}}};
  for (const auto& [name, dtype] : kWords) {
    if (word == name) return std::string(dtype);
  }
  return std::nullopt;
}

// ModelOpt's own name of the quantization, after a blank; "" if the config has none.
Result<std::string> AlgorithmOf(const HfConfig& config) {
  const auto section = config.Find(fields::kQuantization);
  if (!section || !section->value->is_object()) return std::string();
  const auto algorithm = section->value->find("quant_algo");
  if (algorithm == section->value->end() || !algorithm->is_string()) return std::string();
  return Cat(" ", algorithm->get<std::string>());
}

}  // namespace

Result<PromisedStorage> ReadStorage(const HfConfig& config, const ModelConfig& model,
                                    const Family& family) {
  PromisedStorage storage;
  SHARD_TRY(const std::optional<std::string> word, config.FindString(fields::kDtype));
  storage.plain = DtypeOf(word.value_or("")).value_or(storage.plain);
  storage.description = storage.plain;
  const Result<WeightConfig> read = ReadWeightConfig(config);
  if (!read && read.error().code == Code::kCorrupt) return read.error();
  const std::string& method = model.quant_method;
  if (method == "mxfp4" && family.facts.transposed) {
    storage.mxfp4_experts = true;
    storage.description += ", experts in MXFP4";
  } else if (read && method == "fp8" && read->block_rows > 0 && read->block_columns > 0) {
    storage.block_rows = read->block_rows;
    storage.block_columns = read->block_columns;
    storage.description = Cat("F8_E4M3 in blocks of ", read->block_rows, "x", read->block_columns);
    storage.excluded = read->unquantized;
  } else {
    const bool integers = method.empty() && model.quant_bits > 0;
    SHARD_TRY(const std::string algorithm, AlgorithmOf(config));
    storage.unfollowed = integers ? Plural(model.quant_bits, "bit") : Cat(method, algorithm);
  }
  // DeepSeek-V4 stores its experts in another type than the rest.
  SHARD_TRY(const std::optional<std::string> experts, config.FindString({"expert_dtype"}));
  if (experts && !experts->empty() && storage.unfollowed.empty()) {
    storage.unfollowed = Cat("experts in ", *experts);
  }
  return storage;
}

}  // namespace moepack
