// ParseModelConfig, CheckConfig and PromiseTensors: config.json of any origin.
#include "libshard/model/config.h"

#include <algorithm>

#include "fixtures/generator.h"
#include "libshard/check/model_check.h"
#include "libshard/check/promised_model.h"
#include "libshard/model/family_find.h"
#include "tests/fuzz/target.h"

namespace config_target {

constexpr const char* kWhere = "damaged/config.json";
constexpr uint32_t kMaxCount = 1u << 20;
constexpr uint32_t kMaxWidth = 1u << 30;

std::vector<std::string> Seeds() {
  std::vector<std::string> seeds;
  for (const std::string& layout : fixtures::Layouts()) {
    seeds.push_back(fixtures::DescribeCheckpoint(layout).config);
  }
  return seeds;
}

// What the config promises, and which of it is impossible.
std::string CheckFindings(std::string_view input, const moepack::ModelConfig& model,
                          const moepack::Family& family) {
  const auto config = moepack::HfConfig::Parse(kWhere, input);
  if (!config) return fuzz::ErrorProblem(config.error(), kWhere);
  const auto findings = moepack::CheckConfig(*config, model, family);
  if (!findings) return fuzz::ErrorProblem(findings.error(), kWhere);
  for (const moepack::CheckFinding& finding : *findings) {
    if (finding.what.empty() || finding.expected.empty() || finding.found.empty()) {
      return "a finding without words: " + moepack::FindingText(finding);
    }
  }
  return "";
}

// What a config alone promises: sizes that multiply without overflow, and a limited number of
// tensors.
std::string CheckPromise(std::string_view input, const moepack::ModelConfig& model,
                         const moepack::Family& family) {
  constexpr uint64_t kEnough = 20'000;  // more only takes longer
  if (uint64_t{model.layers} * std::max(model.expert_count, 1u) > kEnough) return "";
  const auto config = moepack::HfConfig::Parse(kWhere, input);
  if (!config) return fuzz::ErrorProblem(config.error(), kWhere);
  std::vector<moepack::CheckFinding> findings;
  const auto promise = moepack::ReadPromise(*config, "", model, family, findings);
  if (!promise) return fuzz::ErrorProblem(promise.error(), kWhere);
  const auto promised = moepack::PromiseTensors(*config, model, family, *promise);
  if (!promised) return fuzz::ErrorProblem(promised.error(), kWhere);
  for (const moepack::TensorEntry& entry : promised->tensors) {
    if (entry.bytes == 0 || entry.format->BytesFor(entry.Elements()) != entry.bytes) {
      return "bytes that are not those of the shape: " + entry.name;
    }
  }
  return "";
}

std::string Check(std::string_view input) {
  const auto config = moepack::ParseModelConfig(kWhere, input);
  if (!config) return fuzz::ErrorProblem(config.error(), kWhere);
  for (const uint32_t count :
       {config->layers, config->mtp_layers, config->expert_count, config->top_k}) {
    if (count > kMaxCount) return moepack::Cat("a count of ", count);
  }
  for (const uint32_t width :
       {config->hidden_size, config->expert_intermediate_size, config->vocab_size}) {
    if (width > kMaxWidth) return moepack::Cat("a width of ", width);
  }
  for (const uint32_t count : config->experts_per_layer) {
    if (count > config->expert_count) return "experts is not the maximum of its list";
  }
  for (const uint32_t count : config->top_k_per_layer) {
    if (count > config->top_k) return "top_k is not the maximum of its list";
  }
  const auto family = moepack::FindFamily(kWhere, *config);
  if (!family) return fuzz::ErrorProblem(family.error(), kWhere);
  if (*family == nullptr) return "a null family";
  const std::string problem = CheckFindings(input, *config, **family);
  return problem.empty() ? CheckPromise(input, *config, **family) : problem;
}

constexpr fuzz::Target kTarget{Check, Seeds, 10'000};

}  // namespace config_target

FUZZ_JSON_TARGET(FuzzConfig, config_target::kTarget)
