#include "tools/reports/planning/active_counts.h"

#include "libshard/model/gguf_architectures.h"

namespace moepack::cli {
namespace {

CardConvention ConventionOf(const MoeModel& model) {
  if (!model.checkpoint().is_gguf()) return model.family().cards;
  const GgufArchitecture* architecture = FindArchitecture(model.config().architecture);
  return architecture == nullptr ? CardConvention::kAll : architecture->cards;
}

}  // namespace

ActiveCounts CountActive(const ParameterCount& parameters) {
  if (parameters.active == 0) return {};
  const uint64_t used = parameters.active - parameters.input_embedding;
  return {parameters.active, used, used - parameters.head};
}

CardCount CountAsCards(const MoeModel& model, const ParameterCount& parameters) {
  const ActiveCounts counts = CountActive(parameters);
  switch (ConventionOf(model)) {
    case CardConvention::kWithoutEmbedding:
      return {counts.without_embedding, "the input embedding"};
    case CardConvention::kWithoutTables:
      return {counts.without_tables, "input embedding and head"};
    case CardConvention::kAll:
      break;
  }
  return {counts.all, ""};
}

}  // namespace moepack::cli
