#include "runtime-shim/load/prepare_to_run.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace moepack::runtime {
namespace {

// Options of `build` and `quantize` that hints of the conversion name.
constexpr std::string_view kOutputOptions[] = {"--format", "--pre", "--no-mtp"};

Error WithoutOutputHint(Error error) {
  const bool names_one = std::any_of(
      std::begin(kOutputOptions), std::end(kOutputOptions),
      [&](std::string_view option) { return error.hint.find(option) != std::string::npos; });
  if (names_one) error.hint.clear();
  return error;
}

// A block for multi-token prediction is not run, so one that keeps more experts than the pruned
// layers, for which a GGUF has no number, is left out.
bool FitsWithItsBlocks(const MoeModel& model) {
  return std::all_of(model.layers().begin(), model.layers().end(), [&](const MoeLayer& layer) {
    return !layer.mtp || layer.expert_count == model.max_experts();
  });
}

}  // namespace

Result<TypedGguf> PrepareToRun(const MoeModel& model) {
  QuantizeOptions options;
  options.convert.part = ConvertOptions::Part::kTokenizerIfUsable;
  options.convert.mtp = FitsWithItsBlocks(model);
  Result<TypedGguf> typed = PrepareGguf(model, options);
  if (!typed) return WithoutOutputHint(std::move(typed).error());
  std::optional<Error>& none = typed->model.no_tokenizer;
  if (none) none = WithoutOutputHint(*std::move(none));
  return typed;
}

}  // namespace moepack::runtime
