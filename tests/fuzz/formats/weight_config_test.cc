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
          R"({"quantization_config": {"quant_method": "compressed-tensors",
              "format": "mixed-precision", "config_groups": {
              "a": {"format": "int-quantized", "weights": {"type": "int", "num_bits": 8,
                    "strategy": "group", "group_size": 32}},
              "b": {"format": "mxfp4-pack-quantized", "weights": {"type": "float"}},
              "c": {"format": "pack-quantized", "weights": {"type": "int", "num_bits": 4}}}}})",
          R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "group_size": 128,
              "dynamic": {"-:a": {}, "+:b": {"bits": 8, "group_size": -1}, "c": {"bits": 2}}}})",
          R"({"quantization_config": {"quant_method": "auto-round", "bits": 4, "group_size": 128,
              "packing_format": "auto_round", "data_type": "int",
              "extra_config": {"a": {"bits": 16}, "b": {"bits": 8}}}})",
          R"({"quantization_config": {"quant_method": "quark", "global_quant_config": {"weight": {
              "dtype": "fp4", "qscheme": "per_group", "group_size": 32, "scale_format": "e8m0"}},
              "layer_quant_config": {"*a*": {"weight": {"dtype": "fp8_e4m3",
              "qscheme": "per_tensor"}}}}})",
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
              "num_bits": 4, "symmetric": true, "group_size": 0}}}}})",
          R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "dynamic": {"a": 1}}})",
          R"({"quantization_config": {"quant_method": "gptq", "bits": 4, "dynamic": []}})",
          R"({"quantization_config": {"quant_method": "quark", "layer_quant_config": {"a": []}}})",
          R"({"quantization_config": {"quant_method": "auto-round", "bits": 4,
              "packing_format": "auto_round:fp8"}})"};
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

std::string FormProblem(const moepack::WeightForm& form, moepack::WordPacking packing) {
  for (const uint64_t length : {form.block_rows, form.block_columns, form.group_size})
    if (length > kMaxBlock) return Cat("a length of ", length);
  if ((form.block_rows == 0) != (form.block_columns == 0)) return "half a block";
  if (!IsBits(form.bits)) return Cat("weights of ", form.bits, " bits");
  const bool packed = packing != moepack::WordPacking::kNone || form.format == "pack-quantized";
  return packed == (form.bits != 0) ? "" : "bits of weights that are not packed, or none";
}

std::string Check(std::string_view input) {
  const auto weights = Read(input);
  if (!weights) return fuzz::ErrorProblem(weights.error(), kWhere);
  std::string problem = FormProblem(*weights, weights->packing);
  for (const moepack::WeightForm& form : weights->others) {
    if (problem.empty()) problem = FormProblem(form, weights->packing);
    if (form == *weights) return "a form that is there twice";
  }
  return problem.empty() ? GroupProblem(*weights, input) : problem;
}

bool Accepts(std::string_view input) { return Read(input).has_value(); }

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 5000, .accepts = Accepts, .refused = Refused};

}  // namespace weight_config_target

FUZZ_JSON_TARGET(FuzzWeightConfig, weight_config_target::kTarget)
