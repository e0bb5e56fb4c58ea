// ParseModelConfig and CheckConfig: config.json of any maker.
#include "libshard/config.h"

#include "fixtures/generator.h"
#include "libshard/check/model_check.h"
#include "tests/fuzz/target.h"

namespace {

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

// What the config promises, and what of it cannot be.
std::string CheckFindings(std::string_view input, const shard::ModelConfig& model,
                          const shard::Family& family) {
  const auto config = shard::HfConfig::Parse(kWhere, input);
  if (!config) return fuzz::ErrorProblem(config.error(), kWhere);
  const auto findings = shard::CheckConfig(*config, model, family);
  if (!findings) return fuzz::ErrorProblem(findings.error(), kWhere);
  for (const shard::CheckFinding& finding : *findings) {
    if (finding.what.empty() || finding.expected.empty() || finding.found.empty()) {
      return "a finding without words: " + shard::FindingText(finding);
    }
  }
  return "";
}

std::string Check(std::string_view input) {
  const auto config = shard::ParseModelConfig(kWhere, input);
  if (!config) return fuzz::ErrorProblem(config.error(), kWhere);
  for (const uint32_t count :
       {config->layers, config->mtp_layers, config->experts, config->top_k}) {
    if (count > kMaxCount) return shard::Cat("a count of ", count);
  }
  for (const uint32_t width :
       {config->hidden_size, config->expert_intermediate_size, config->vocab_size}) {
    if (width > kMaxWidth) return shard::Cat("a width of ", width);
  }
  for (const uint32_t count : config->experts_per_layer) {
    if (count > config->experts) return "experts is not the maximum of its list";
  }
  for (const uint32_t count : config->top_k_per_layer) {
    if (count > config->top_k) return "top_k is not the maximum of its list";
  }
  const auto family = shard::FindFamily(kWhere, *config);
  if (!family) return fuzz::ErrorProblem(family.error(), kWhere);
  return *family == nullptr ? "a null family" : CheckFindings(input, *config, **family);
}

constexpr fuzz::Target kTarget{Check, Seeds, 10'000};

}  // namespace

FUZZ_JSON_TARGET(FuzzConfig, kTarget)
