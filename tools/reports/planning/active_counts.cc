#include "tools/reports/planning/active_counts.h"

#include <algorithm>
#include <array>

namespace moepack::cli {
namespace {

constexpr std::string_view kEmbedding = "the input embedding";
constexpr std::string_view kTables = "input embedding and head";

struct Convention {
  std::string_view name;  // of a family, or of a GGUF architecture
  std::string_view without;
};
// The others count everything.
constexpr std::array kConventions = {
    Convention{"deepseek-v2", kEmbedding},  Convention{"deepseek-v3", kEmbedding},
    Convention{"deepseek2", kEmbedding},    Convention{"ernie4.5-moe", kEmbedding},
    Convention{"ernie4_5-moe", kEmbedding}, Convention{"glm-dsa", kTables},
    Convention{"glm4-moe", kTables},        Convention{"glm4-moe-lite", kTables},
    Convention{"glm4moe", kTables},         Convention{"glm5", kTables},
    Convention{"gpt-oss", kEmbedding},      Convention{"kimi-k2.5", kEmbedding},
    Convention{"minimax-m2", kEmbedding},
};

std::string_view LeftOut(const MoeModel& model) {
  const bool gguf = model.checkpoint().is_gguf();
  const std::string& name = gguf ? model.config().architecture : model.family().name;
  const auto found =
      std::find_if(kConventions.begin(), kConventions.end(),
                   [&](const Convention& convention) { return convention.name == name; });
  return found == kConventions.end() ? std::string_view() : found->without;
}

}  // namespace

ActiveCounts CountActive(const ParameterCount& parameters) {
  if (parameters.active == 0) return {};
  const uint64_t used = parameters.active - parameters.input_embedding;
  return {parameters.active, used, used - parameters.head};
}

CardCount CountAsCards(const MoeModel& model, const ParameterCount& parameters) {
  const ActiveCounts counts = CountActive(parameters);
  const std::string_view without = LeftOut(model);
  const uint64_t active = without == kEmbedding ? counts.without_embedding
                          : without == kTables  ? counts.without_tables
                                                : counts.all;
  return {active, active == counts.all ? std::string_view() : without};
}

}  // namespace moepack::cli
