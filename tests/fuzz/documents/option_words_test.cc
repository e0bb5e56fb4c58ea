// Words of options that describe sizes, parts, partitions and gates.
#include <cmath>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/partition.h"
#include "runtime-shim/eval/gate.h"
#include "tests/fuzz/target.h"
#include "tools/options/machine_options.h"

namespace option_words_target {

using moepack::Cat;

constexpr size_t kGroups = 8;

std::vector<std::string> Seeds() {
  return {"64M",
          "1.5GiB",
          "24GBx3",
          "16gb x2",
          "32k",
          "1m",
          "trunk,group:1,overlay,assets",
          "remainder",
          "modulo",
          "explicit:groups.json",
          "kld<=0.15",
          "each.top1 >= 0.9",
          "total_ppl_ratio<1.01"};
}

std::vector<std::string> Refused() {
  return {"", "0.0001x", "group:8", "kld=1", "kld<=nan", "explicit:", "24GBx0", "1.5.5"};
}

std::string SizeProblem(const std::string& input) {
  const auto tokens = moepack::cli::ParseTokens(input);
  if (tokens && (*tokens == 0 || *tokens > uint64_t{1} << 30)) return Cat(*tokens, " tokens");
  const auto nodes = moepack::cli::ParseNodes({input});
  if (!nodes) return fuzz::ErrorProblem(nodes.error(), "--node");
  for (const uint64_t bytes : *nodes)
    if (bytes == 0) return "a machine without memory";
  return "";
}

std::string PartsProblem(const std::string& input) {
  const auto parts = moepack::ParseParts({input}, kGroups);
  if (!parts) return fuzz::ErrorProblem(parts.error(), "--only");
  if (parts->all) return "all parts from a list of some";
  for (const uint32_t group : parts->groups)
    if (group >= kGroups || !parts->WantsGroup(group)) return Cat("group ", group);
  return "";
}

std::string PartitionProblem(const std::string& input) {
  const auto choice = moepack::ParsePartition(input);
  if (!choice) return choice.error().message.empty() ? "an error without words" : "";
  if (choice->partition == nullptr) return "a partition of nothing";
  const std::string name(choice->partition->name);
  const std::string text = choice->file.empty() ? name : Cat(name, ":", choice->file);
  return text == input ? "" : "another partition after writing: " + text;
}

std::string GateProblem(const std::string& input) {
  const auto gate = moepack::runtime::ParseGate(input);
  if (!gate) return fuzz::ErrorProblem(gate.error(), "--gate");
  if (!std::isfinite(gate->value)) return "a gate at no number";
  const bool holds_at = gate->relation == "<=" || gate->relation == ">=";
  if (gate->Holds(gate->value) != holds_at) return "a relation that does not hold";
  return gate->text == input ? "" : "another text";
}

std::string Check(std::string_view input) {
  const std::string text(input);
  for (const auto& check : {SizeProblem, PartsProblem, PartitionProblem, GateProblem})
    if (std::string problem = check(text); !problem.empty()) return problem;
  return "";
}

bool Accepts(std::string_view input) {
  const std::string text(input);
  return moepack::ParseBytes(text) || moepack::cli::ParseNodes({text}) ||
         moepack::cli::ParseTokens(text) || moepack::ParseParts({text}, kGroups) ||
         moepack::ParsePartition(text) || moepack::runtime::ParseGate(text);
}

constexpr fuzz::Target kTarget{
    .check = Check, .seeds = Seeds, .iterations = 20'000, .accepts = Accepts, .refused = Refused};

}  // namespace option_words_target

FUZZ_TARGET(FuzzOptionWords, option_words_target::kTarget)
