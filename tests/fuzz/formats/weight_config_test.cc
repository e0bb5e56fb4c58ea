// ReadWeightConfig: how a config.json says that weights are stored.
#include "libshard/model/weight_config.h"

#include <nlohmann/json.hpp>

#include "tests/fuzz/target.h"

namespace weight_config_target {

using moepack::Cat;

constexpr const char* kWhere = "damaged/config.json";
constexpr uint64_t kMaxBlock = 1u << 20;

std::vector<std::string> Seeds() {
  return {R"({"quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 64]}})",
          R"({"text_config": {"quantization_config": {"quant_method": "compressed-tensors",
              "format": "pack-quantized", "config_groups": {"group_0": {"weights": {"type": "int",
              "num_bits": 4, "symmetric": false, "group_size": 32}}}}}})",
          R"({"quantization_config": {"quant_method": "compressed-tensors",
              "format": "float-quantized", "config_groups": {"group_0": {"weights": {
              "type": "float", "block_structure": [16, 16]}}}}})",
          R"({"quantization_config": {"quant_method": "gptq", "bits": 8, "group_size": -1,
              "checkpoint_format": "gptq_v2"}})",
          R"({"quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128,
              "version": "GEMM"}})",
          R"({"quantization_config": {"quant_method": "mxfp4"}})",
          R"({"model_type": "x"})"};
}

std::vector<std::string> Refused() {
  return {R"({"quantization_config": {"quant_method": "gptq", "bits": 3}})",
          R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 2097152}})",
          R"({"quantization_config": {"quant_method": "gptq", "bits": 4,
              "group_size": 18446744073709551615}})",
          R"({"quantization_config": {"quant_method": "another"}})",
          R"({"quantization_config": {"quant_method": "compressed-tensors", "format":
              "pack-quantized", "config_groups": {"a\u0000\u001b": {"weights": {"type": "int",
              "num_bits": 4, "symmetric": true, "group_size": 0}}}}})"};
}

moepack::Result<moepack::WeightConfig> Read(std::string_view input) {
  SHARD_TRY(const moepack::HfConfig config, moepack::HfConfig::Parse(kWhere, input));
  return moepack::ReadWeightConfig(config);
}

bool IsBits(uint32_t bits) { return bits == 0 || bits == 2 || bits == 4 || bits == 8; }

// The whole row is a group only if the document says -1 or nothing.
std::string GroupProblem(const moepack::WeightConfig& weights, std::string_view input) {
  const auto document = moepack::ParseJson(kWhere, input);
  const auto section = document->find("quantization_config");
  const bool alone = document->size() == 1;  // nothing else that may state it
  if (weights.method != "gptq" || section == document->end() || !alone) return "";
  const auto stated = section->find("group_size");
  if (stated == section->end() || stated->is_null()) return "";
  const bool whole = stated->dump() == "-1";
  return whole == (weights.group_size == 0) ? "" : Cat("a group size of ", stated->dump());
}

std::string Check(std::string_view input) {
  const auto weights = Read(input);
  if (!weights) return fuzz::ErrorProblem(weights.error(), kWhere);
  for (const uint64_t length : {weights->block_rows, weights->block_columns, weights->group_size})
    if (length > kMaxBlock) return Cat("a length of ", length);
  if ((weights->block_rows == 0) != (weights->block_columns == 0)) return "half a block";
  if (!IsBits(weights->bits)) return Cat("weights of ", weights->bits, " bits");
  const bool packed =
      weights->method == "gptq" || weights->method == "awq" || weights->format == "pack-quantized";
  if (packed != (weights->bits != 0)) return "bits of weights that are not packed, or none";
  return GroupProblem(*weights, input);
}

bool Accepts(std::string_view input) { return Read(input).has_value(); }

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 5000, .accepts = Accepts, .refused = Refused};

}  // namespace weight_config_target

FUZZ_JSON_TARGET(FuzzWeightConfig, weight_config_target::kTarget)
