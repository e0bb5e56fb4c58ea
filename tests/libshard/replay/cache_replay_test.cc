#include "libshard/replay/cache_replay.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <map>
#include <set>

#include "libshard/replay/requests.h"
#include "tests/libshard/replay/small_trace.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;

const std::vector<CachePolicy> kAllPolicies = {CachePolicy::kLru, CachePolicy::kLfu,
                                               CachePolicy::kStatic, CachePolicy::kOracle};

ReplayOptions OptionsFor(const RouteTrace& trace, const std::vector<uint32_t>& slots) {
  ReplayOptions options;
  options.policies = kAllPolicies;
  for (const uint32_t each : slots) options.slots.emplace_back(trace.layers.size(), each);
  options.best_first = MostChosen(trace, static_cast<uint32_t>(trace.steps.size()));
  return options;
}

std::vector<ReplayRow> Replay(const RouteTrace& trace, const ReplayOptions& options) {
  auto rows = ReplayTrace(trace, options);
  EXPECT_TRUE(rows);
  return rows ? *std::move(rows) : std::vector<ReplayRow>{};
}

std::vector<uint64_t> HitsOf(const std::vector<ReplayRow>& rows) {
  std::vector<uint64_t> hits;
  for (const ReplayRow& row : rows) hits.push_back(row.all().hits);
  return hits;
}

// By hand, with two slots: a b a c b a. LRU hits only the second a. LFU keeps a, and the most
// recently used of the others: it hits a twice. {a, b} fixed, and the oracle, which gives c no
// slot, hit every repetition.
TEST(CacheReplay, MatchesAHandComputedTraceWithTwoSlots) {
  const RouteTrace trace = SmallTrace(3, 0, {{0}, {1}, {0}, {2}, {1}, {0}});
  const auto rows = Replay(trace, OptionsFor(trace, {2}));
  EXPECT_THAT(HitsOf(rows), ElementsAre(1, 2, 3, 3));
  for (const ReplayRow& row : rows) EXPECT_EQ(row.all().lookups, 6u);
}

// A token requests all of its experts at once: with two slots that hold {0, 1}, the token {2, 0}
// hits 0, although reading 2 first would have evicted it.
TEST(CacheReplay, ATokenLooksUpAllItsExpertsBeforeReadingAny) {
  const RouteTrace trace = SmallTrace(3, 0, {{1, 0}, {2, 1}, {0, 2}});
  ReplayOptions options = OptionsFor(trace, {2});
  options.policies = {CachePolicy::kLru};
  EXPECT_THAT(HitsOf(Replay(trace, options)), ElementsAre(2));
}

TEST(CacheReplay, KeepsTheBestExpertsIfATokenNeedsMoreThanTheSlots) {
  const RouteTrace trace = SmallTrace(4, 0, {{2, 1, 0}, {2, 1, 0}, {3, 1, 2}});
  ReplayOptions options = OptionsFor(trace, {1});
  options.policies = {CachePolicy::kLru, CachePolicy::kOracle};
  EXPECT_THAT(HitsOf(Replay(trace, options)), ElementsAre(2, 2));
}

TEST(CacheReplay, CountsPhasesSeparatelyWithAWarmCache) {
  const RouteTrace trace = SmallTrace(3, 2, {{0}, {1}, {1}, {0}});
  ReplayOptions options = OptionsFor(trace, {2});
  options.policies = {CachePolicy::kLru};
  const auto rows = Replay(trace, options);
  EXPECT_EQ(rows[0].phases[0], (CacheCounts{2, 0, {}}));
  EXPECT_EQ(rows[0].phases[1], (CacheCounts{2, 2, {}}));
  EXPECT_EQ(CountSteps(trace, 0), (std::array<uint64_t, 2>{2, 2}));
  EXPECT_EQ(CountSteps(trace, 1), (std::array<uint64_t, 2>{1, 2}));
}

TEST(CacheReplay, DoesNotCountTheTokensOfAWarmUp) {
  const RouteTrace trace = SmallTrace(3, 0, {{0}, {1}, {0}, {2}});
  ReplayOptions options = OptionsFor(trace, {2});
  options.first_counted = 2;
  const auto rows = Replay(trace, options);
  EXPECT_EQ(rows[0].all(), (CacheCounts{2, 1, {}}));
  EXPECT_EQ(rows[3].all(), (CacheCounts{2, 1, {}}));
}

TEST(CacheReplay, APromptMayRunInBatchesThatReadEachExpertOnce) {
  const RouteTrace trace = SmallTrace(4, 3, {{0, 1}, {1, 2}, {0, 1}, {1, 0}});
  const LayerRequests all = RequestsOf(trace, 0, 8, 0);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_THAT(all.expert_ids, ElementsAre(2, 1, 0, 0, 1));
  EXPECT_THAT(all.ends, ElementsAre(3, 5));
  const LayerRequests two = RequestsOf(trace, 0, 2, 0);
  EXPECT_THAT(two.ends, ElementsAre(3, 5, 7));
  // Counted and uncounted tokens share no request.
  const LayerRequests cut = RequestsOf(trace, 0, 8, 1);
  EXPECT_THAT(cut.ends, ElementsAre(2, 5, 7));
  EXPECT_EQ(cut.first_counted, 1u);

  ReplayOptions options = OptionsFor(trace, {2});
  options.policies = {CachePolicy::kLru};
  options.prefill_batch = 8;
  const auto rows = Replay(trace, options);
  EXPECT_EQ(rows[0].phases[0], (CacheCounts{3, 0, {}}));
  EXPECT_EQ(rows[0].phases[1], (CacheCounts{2, 2, {}}));
}

TEST(CacheReplay, ChargesMissesWithTheBytesOfTheirExperts) {
  const RouteTrace trace = SmallTrace(2, 0, {{0}, {1}, {1}, {0}});
  const ExpertLayout layout = {{{10, 4096, 1}, {100, 8192, 3}}};
  ReplayOptions options = OptionsFor(trace, {1, 2});
  options.policies = {CachePolicy::kLru};
  options.layout = &layout;
  const auto rows = Replay(trace, options);
  EXPECT_EQ(rows[0].all(), (CacheCounts{4, 1, {120, 16384, 5}}));
  EXPECT_EQ(rows[1].all(), (CacheCounts{4, 2, {110, 12288, 4}}));
}

TEST(CacheReplay, EveryLayerHasItsOwnCache) {
  RouteTrace trace = SmallTrace(2, 0, {{0}, {0}, {0}});
  AddLayer(trace, 4, 3, {{0}, {1}, {2}});
  ReplayOptions options = OptionsFor(trace, {1});
  options.policies = {CachePolicy::kLru};
  for (const size_t jobs : {1, 2}) {
    options.jobs = jobs;
    EXPECT_EQ(Replay(trace, options)[0].all(), (CacheCounts{6, 2, {}}));
  }
}

TEST(CacheReplay, RanksExpertsByChoicesAndTiesByLowerId) {
  const RouteTrace trace = SmallTrace(4, 0, {{3, 1}, {3, 2}, {0, 2}});
  EXPECT_THAT(MostChosen(trace, 3), ElementsAre(ElementsAre(2, 3, 0, 1)));
  EXPECT_THAT(MostChosen(trace, 1), ElementsAre(ElementsAre(1, 3, 0, 2)));
}

// Plain caches, one size each, that follow the header literally.
class PlainCache {
 public:
  PlainCache(CachePolicy policy, size_t slots) : policy_(policy), slots_(slots) {}
  uint64_t Request(const std::vector<uint16_t>& ids) {
    uint64_t hits = 0;
    for (const uint16_t id : ids) hits += held_.contains(id) ? 1 : 0;
    ++time_;
    for (size_t rank = 0; rank < ids.size(); ++rank) {
      held_.insert(ids[rank]);
      ++count_[ids[rank]];
      last_[ids[rank]] = {time_, ids.size() - rank};
    }
    while (held_.size() > slots_) held_.erase(Worst());
    return hits;
  }

 private:
  uint16_t Worst() const {
    return *std::min_element(held_.begin(), held_.end(), [&](uint16_t a, uint16_t b) {
      if (policy_ == CachePolicy::kLru) return last_.at(a) < last_.at(b);
      if (count_.at(a) != count_.at(b)) return count_.at(a) < count_.at(b);
      if (last_.at(a).first != last_.at(b).first) return last_.at(a).first < last_.at(b).first;
      return a > b;
    });
  }
  CachePolicy policy_;
  size_t slots_;
  std::set<uint16_t> held_;
  std::map<uint16_t, uint64_t> count_;
  std::map<uint16_t, std::pair<uint64_t, size_t>> last_;
  uint64_t time_ = 0;
};

// The most hits that any cache can have: all sets that it may hold, as bits, after every request.
uint64_t BestHits(const std::vector<std::vector<uint16_t>>& chosen, uint32_t expert_count,
                  uint32_t slots) {
  std::map<uint32_t, uint64_t> best = {{0, 0}};
  for (const auto& ids : chosen) {
    uint32_t asked = 0;
    for (const uint16_t id : ids) asked |= 1u << id;
    std::map<uint32_t, uint64_t> next;
    for (const auto& [held, hits] : best) {
      const uint64_t now = hits + static_cast<uint64_t>(__builtin_popcount(held & asked));
      const uint32_t may_keep = held | asked;
      for (uint32_t kept = 0; kept < 1u << expert_count; ++kept) {
        if ((kept & ~may_keep) != 0 || static_cast<uint32_t>(__builtin_popcount(kept)) > slots)
          continue;
        next[kept] = std::max(next[kept], now);
      }
    }
    best = std::move(next);
  }
  uint64_t most = 0;
  for (const auto& [held, hits] : best) most = std::max(most, hits);
  return most;
}

TEST(CacheReplay, OnePassMatchesACacheOfEachSize) {
  SmallRandom random(1);
  for (int round = 0; round < 200; ++round) {
    const uint32_t expert_count = 2 + random.Below(7);
    const auto chosen = RandomChoices(random, 40, expert_count, std::min(3u, expert_count));
    const RouteTrace trace = SmallTrace(expert_count, 10, chosen);
    std::vector<uint32_t> slots(expert_count);
    for (uint32_t i = 0; i < expert_count; ++i) slots[i] = i + 1;
    ReplayOptions options = OptionsFor(trace, slots);
    options.policies = {CachePolicy::kLru, CachePolicy::kLfu};
    for (const ReplayRow& row : Replay(trace, options)) {
      PlainCache cache(row.policy, slots[row.size]);
      uint64_t hits = 0;
      for (const auto& ids : chosen) hits += cache.Request(ids);
      ASSERT_EQ(row.all().hits, hits) << "round " << round << ", " << slots[row.size] << " slots";
    }
  }
}

TEST(CacheReplay, NoCacheHitsMoreThanTheOracle) {
  SmallRandom random(2);
  for (int round = 0; round < 100; ++round) {
    const uint32_t expert_count = 2 + random.Below(4);
    const auto chosen = RandomChoices(random, 12, expert_count, std::min(3u, expert_count));
    const RouteTrace trace = SmallTrace(expert_count, 0, chosen);
    for (uint32_t slots = 1; slots <= expert_count; ++slots) {
      const auto rows = Replay(trace, OptionsFor(trace, {slots}));
      ASSERT_EQ(rows[3].all().hits, BestHits(chosen, expert_count, slots)) << "round " << round;
      for (const ReplayRow& row : rows) ASSERT_LE(row.all().hits, rows[3].all().hits);
    }
  }
}

}  // namespace
}  // namespace moepack
