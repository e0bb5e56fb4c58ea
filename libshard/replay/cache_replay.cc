#include "libshard/replay/cache_replay.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "libshard/base/parallel.h"
#include "libshard/replay/cache_order.h"
#include "libshard/replay/oracle.h"
#include "libshard/replay/requests.h"

namespace moepack {
namespace {

using PhaseCounts = std::array<CacheCounts, 2>;

// What the lookups of one layer cost if they miss.
class LayerCosts {
 public:
  LayerCosts(const ExpertLayout* layout, size_t layer)
      : reads_(layout == nullptr ? nullptr : &(*layout)[layer]) {}
  void Add(uint16_t id, bool hit, CacheCounts& counts) const {
    ++counts.lookups;
    if (hit) {
      ++counts.hits;
    } else if (reads_ != nullptr) {
      const ExpertReads& reads = (*reads_)[id];
      counts.misses.bytes += reads.bytes;
      counts.misses.block_bytes += reads.block_bytes;
      counts.misses.reads += reads.reads;
    }
  }

 private:
  const std::vector<ExpertReads>* reads_;
};

std::unique_ptr<CacheOrder> OrderFor(CachePolicy policy, size_t layer, uint32_t expert_count,
                                     const ReplayOptions& options) {
  switch (policy) {
    case CachePolicy::kLru:
      return std::make_unique<RecencyOrder>(expert_count);
    case CachePolicy::kLfu:
      return std::make_unique<FrequencyOrder>(expert_count);
    case CachePolicy::kStatic:
      return std::make_unique<FixedOrder>(options.best_first[layer]);
    case CachePolicy::kOracle:
      break;
  }
  return nullptr;
}

// One layer under one policy, for all sizes.
class LayerReplay {
 public:
  LayerReplay(const LayerRequests& requests, const LayerCosts& costs, size_t layer,
              uint32_t expert_count, const ReplayOptions& options)
      : requests_(requests),
        costs_(costs),
        layer_(layer),
        expert_count_(expert_count),
        options_(options) {}

  // Adds to counts[size].
  Status Run(CachePolicy policy, std::vector<PhaseCounts>& counts) const {
    const std::unique_ptr<CacheOrder> order = OrderFor(policy, layer_, expert_count_, options_);
    if (order != nullptr) return RunOrder(*order, counts);
    for (size_t size = 0; size < options_.slots.size(); ++size) {
      SHARD_CHECK(CheckInterrupt());
      ReplayOracle(requests_, expert_count_, options_.slots[size][layer_],
                   [&](size_t request, uint16_t id, bool hit) {
                     if (request < requests_.first_counted) return;
                     costs_.Add(id, hit, counts[size][PhaseOf(request)]);
                   });
    }
    return Ok();
  }

 private:
  size_t PhaseOf(size_t request) const { return static_cast<size_t>(requests_.phases[request]); }

  Status RunOrder(CacheOrder& order, std::vector<PhaseCounts>& counts) const {
    for (size_t request = 0; request < requests_.size(); ++request) {
      if (request % 65536 == 0) SHARD_CHECK(CheckInterrupt());
      if (request >= requests_.first_counted) {
        for (const uint16_t id : requests_.At(request)) {
          const std::optional<uint32_t> place = order.PlaceOf(id);
          for (size_t size = 0; size < options_.slots.size(); ++size) {
            // A smaller cache holds the first of what a larger one holds, so one order answers for
            // all sizes (stack algorithms: Mattson et al. 1970).
            const bool hit = place && *place < options_.slots[size][layer_];
            costs_.Add(id, hit, counts[size][PhaseOf(request)]);
          }
        }
      }
      // All experts of a request are looked up before any is used: a request does not hit what it
      // brings in itself.
      order.Use(requests_.At(request));
    }
    return Ok();
  }

  const LayerRequests& requests_;
  const LayerCosts& costs_;
  size_t layer_;
  uint32_t expert_count_;
  const ReplayOptions& options_;
};

}  // namespace

CacheCounts& CacheCounts::operator+=(const CacheCounts& other) {
  lookups += other.lookups;
  hits += other.hits;
  misses.bytes += other.misses.bytes;
  misses.block_bytes += other.misses.block_bytes;
  misses.reads += other.misses.reads;
  return *this;
}

CacheCounts ReplayRow::all() const {
  CacheCounts sum = phases[0];
  return sum += phases[1];
}

Result<std::vector<ReplayRow>> ReplayTrace(const RouteTrace& trace, const ReplayOptions& options) {
  const size_t policies = options.policies.size(), sizes = options.slots.size();
  // [layer][policy][size]
  std::vector<std::vector<std::vector<PhaseCounts>>> counts(
      trace.layers.size(), std::vector(policies, std::vector<PhaseCounts>(sizes)));
  const Status status = ParallelFor(trace.layers.size(), options.jobs, [&](size_t layer) -> Status {
    const LayerRequests requests =
        RequestsOf(trace, layer, options.prefill_batch, options.first_counted);
    const LayerCosts costs(options.layout, layer);
    const uint32_t expert_count = trace.layers[layer].shape.expert_count;
    const LayerReplay replay(requests, costs, layer, expert_count, options);
    for (size_t p = 0; p < policies; ++p)
      SHARD_CHECK(replay.Run(options.policies[p], counts[layer][p]));
    return Ok();
  });
  SHARD_CHECK(status);
  std::vector<ReplayRow> rows;
  for (size_t size = 0; size < sizes; ++size) {
    for (size_t p = 0; p < policies; ++p) {
      ReplayRow row{options.policies[p], size, {}};
      for (const auto& layer : counts) {
        for (size_t phase = 0; phase < row.phases.size(); ++phase)
          row.phases[phase] += layer[p][size][phase];
      }
      rows.push_back(row);
    }
  }
  return rows;
}

std::array<uint64_t, 2> CountSteps(const RouteTrace& trace, uint32_t first) {
  std::array<uint64_t, 2> counts = {};
  for (size_t step = first; step < trace.steps.size(); ++step)
    ++counts[static_cast<size_t>(trace.steps[step].phase)];
  return counts;
}

std::vector<std::vector<uint32_t>> MostChosen(const RouteTrace& trace, uint32_t end) {
  std::vector<std::vector<uint32_t>> best_first;
  for (const LayerTrace& layer : trace.layers) {
    std::vector<uint64_t> uses(layer.shape.expert_count);
    for (size_t i = 0; i < layer.steps.size() && layer.steps[i] < end; ++i) {
      for (const uint16_t id : layer.Chosen(i)) ++uses[id];
    }
    std::vector<uint32_t> order(uses.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return uses[a] > uses[b]; });
    best_first.push_back(std::move(order));
  }
  return best_first;
}

}  // namespace moepack
