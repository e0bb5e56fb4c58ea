#include "tools/commands/planning/replay_sizes.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/stats/expert_scores.h"
#include "tools/base/sections.h"
#include "tools/options/given_once.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

uint32_t MostExperts(const std::vector<MoeLayerShape>& layers) {
  uint32_t most = 0;
  for (const MoeLayerShape& layer : layers) most = std::max(most, layer.expert_count);
  return most;
}

Status CheckSizes(const ReplaySizeArguments& arguments, uint32_t most) {
  SHARD_CHECK(CheckGivenOnce("--slots", arguments.slots));
  SHARD_CHECK(CheckGivenOnce("--bytes", arguments.bytes));
  for (const uint32_t slots : arguments.slots) {
    if (slots <= most) continue;
    return Error{Code::kInvalidArgument,
                 Cat("--slots: ", slots, " is more than the ", most, " experts of a layer")};
  }
  return Ok();
}

Result<uint32_t> SlotsFor(uint64_t bytes, const ExpertLayout* layout) {
  if (layout == nullptr)
    return Error{Code::kInvalidArgument, "--bytes needs the size of an expert",
                 "name the model with --model, or use --slots"};
  const std::optional<uint32_t> fit = SlotsWithin(bytes, *layout);
  if (fit) return *fit;
  return Error{Code::kInvalidArgument,
               Cat("--bytes must be at least ", FormatCount(BytesOfSlots(1, *layout)),
                   " (one expert of each layer), not ", FormatCount(bytes))};
}

std::vector<uint32_t> UsualSlots(uint32_t experts) {
  std::vector<uint32_t> slots;
  for (const uint32_t eighths : {1, 2, 4, 6}) slots.push_back((experts * eighths + 7) / 8);
  return slots;
}

}  // namespace

void AddReplaySizes(CLI::App& app, ReplaySizeArguments& arguments) {
  StartSection(app, "Selection");
  app.add_option("--slots", arguments.slots,
                 "How many experts of each layer the cache holds: 2,4,8. At most as many as the "
                 "layer has. Default: an eighth, a quarter, a half and three quarters of the "
                 "experts, rounded up.")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(AsCount(1, kMaxStatisticsExperts));
  app.add_option("--bytes", arguments.bytes,
                 "As many slots as fit into these bytes, the same number in all layers: 2GB,4GB.")
      ->type_name("LIST")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->transform(AsBytes(1));
}

Result<std::vector<ReplaySize>> ReplaySizesFor(const ReplaySizeArguments& arguments,
                                               const std::vector<MoeLayerShape>& layers,
                                               const ExpertLayout* layout) {
  const uint32_t most = MostExperts(layers);
  SHARD_CHECK(CheckSizes(arguments, most));
  std::vector<uint32_t> slots = arguments.slots;
  for (const uint64_t bytes : arguments.bytes) {
    SHARD_TRY(const uint32_t fit, SlotsFor(bytes, layout));
    slots.push_back(fit);
  }
  if (slots.empty()) slots = UsualSlots(most);
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  std::vector<ReplaySize> sizes;
  for (const uint32_t each : slots) {
    sizes.push_back({each, std::nullopt});
    if (layout != nullptr) sizes.back().bytes = BytesOfSlots(each, *layout);
  }
  return sizes;
}

}  // namespace moepack::cli
