#include "libshard/sizing/stages.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <set>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Finds the smallest possible load of the fullest stage, by dynamic programming over the number of
// stages and of layers that they cover.
class StageDivider {
 public:
  StageDivider(const StageInput& input, uint32_t stages) : input_(input), stages_(stages) {
    std::set<uint32_t> numbers;
    for (const auto& [layer, bytes] : input.bytes.layers) numbers.insert(layer);
    for (const auto& [layer, bytes] : input.cache) numbers.insert(layer);
    layers_.assign(numbers.begin(), numbers.end());
    weights_.push_back(0);
    cache_.push_back(0);
    for (const uint32_t layer : layers_) {
      weights_.push_back(weights_.back() + WeightsOf(layer));
      cache_.push_back(cache_.back() + CacheOf(layer));
    }
  }

  Result<std::vector<StageNeed>> Divide() {
    if (stages_ == 0 || stages_ > layers_.size()) {
      return Error{Code::kInvalidArgument, Cat("--stages: expected 1 to ", layers_.size(),
                                               ", the layers of the model, found ", stages_)};
    }
    FillTable();
    std::vector<StageNeed> needs(stages_);
    size_t end = layers_.size();
    for (uint32_t stage = stages_; stage-- > 0;) {
      const size_t begin = stage == 0 ? 0 : from_[stage][end];
      needs[stage] = Need(stage, begin, end);
      end = begin;
    }
    SHARD_CHECK(CheckFit(needs));
    return needs;
  }

 private:
  uint64_t WeightsOf(uint32_t layer) const {
    const auto found = input_.bytes.layers.find(layer);
    if (found == input_.bytes.layers.end()) return 0;
    return found->second.trunk + found->second.expert * input_.eligible;
  }
  uint64_t CacheOf(uint32_t layer) const {
    const auto found = input_.cache.find(layer);
    return found == input_.cache.end() ? 0 : found->second;
  }

  // The need of the layers at [begin, end). REQUIRES: begin < end.
  StageNeed Need(uint32_t stage, size_t begin, size_t end) const {
    StageNeed need;
    // A layer without known contents, as in some configs alone, still belongs to a stage.
    need.range.first_layer = begin == 0 ? 0 : layers_[begin - 1] + 1;
    need.range.last_layer = layers_[end - 1];
    need.weights = weights_[end] - weights_[begin];
    need.cache = cache_[end] - cache_[begin];
    need.buffers = input_.buffers;
    if (begin == 0) need.weights += input_.bytes.before;
    if (end == layers_.size()) {
      need.weights += input_.bytes.after;
      if (input_.bytes.tied && begin > 0) need.weights += input_.bytes.embedding;
    }
    if (!input_.budgets.empty()) need.budget = input_.budgets[stage];
    return need;
  }

  double Load(uint32_t stage, size_t begin, size_t end) const {
    const StageNeed need = Need(stage, begin, end);
    const auto bytes = static_cast<double>(need.total());
    return need.budget == 0 ? bytes : bytes / static_cast<double>(need.budget);
  }

  // best[end]: the load of the fullest of the first stages, which cover the layers before `end`.
  void FillTable() {
    const size_t count = layers_.size();
    constexpr double kNever = std::numeric_limits<double>::infinity();
    std::vector<double> best(count + 1, kNever);
    for (size_t end = 1; end <= count; ++end) best[end] = Load(0, 0, end);
    from_.assign(stages_, std::vector<size_t>(count + 1, 0));
    const std::vector<uint64_t>& budgets = input_.budgets;
    const bool alike =
        std::adjacent_find(budgets.begin(), budgets.end(), std::not_equal_to<>()) == budgets.end();
    for (uint32_t stage = 1; stage < stages_; ++stage) {
      std::vector<double> next(count + 1, kNever);
      for (size_t end = stage + 1; end <= count; ++end) {
        // On machines that differ, one layer more may put a large layer on a larger machine, so
        // best[begin] does not always grow, and every beginning is tried.
        size_t first = stage, last = end - 1;
        if (alike) {
          // The least maximum is on either side of the crossing.
          last = Crossing(best, stage, end);
          first = std::max<size_t>(stage, last - 1);
        }
        for (size_t begin = first; begin <= last; ++begin) {
          const double load = std::max(best[begin], Load(stage, begin, end));
          if (load >= next[end]) continue;
          next[end] = load;
          from_[stage][end] = begin;
        }
      }
      best = std::move(next);
    }
  }

  // The further back the stage begins, the smaller is its load and, on equal machines, the larger
  // is best[begin]. Returns the first beginning where the latter is no longer the smaller one.
  size_t Crossing(const std::vector<double>& best, uint32_t stage, size_t end) const {
    size_t low = stage, high = end - 1;
    while (low < high) {
      const size_t middle = low + (high - low) / 2;
      if (best[middle] >= Load(stage, middle, end)) {
        high = middle;
      } else {
        low = middle + 1;
      }
    }
    return low;
  }

  Status CheckFit(const std::vector<StageNeed>& needs) const {
    for (size_t i = 0; i < needs.size(); ++i) {
      const StageNeed& need = needs[i];
      if (need.budget == 0 || need.total() <= need.budget) continue;
      return Error{Code::kInvalidArgument,
                   Cat("stage ", i, " (", FormatBytes(need.budget), "): layers ",
                       need.range.first_layer, " to ", need.range.last_layer, ": weights ",
                       FormatBytes(need.weights), " + cache ", FormatBytes(need.cache),
                       " + buffers ", FormatBytes(need.buffers), " = ", FormatBytes(need.total()),
                       ": ", FormatBytes(need.total() - need.budget), " too much"),
                   "more stages, more groups or a smaller recipe make each of them smaller"};
    }
    return Ok();
  }

  const StageInput& input_;
  const uint32_t stages_;
  std::vector<uint32_t> layers_;
  std::vector<uint64_t> weights_, cache_;  // of the layers before each position
  std::vector<std::vector<size_t>> from_;  // [stage][end] -> begin
};

}  // namespace

Result<std::vector<StageNeed>> DivideIntoStages(const StageInput& input, uint32_t stages) {
  return StageDivider(input, stages).Divide();
}

}  // namespace moepack
