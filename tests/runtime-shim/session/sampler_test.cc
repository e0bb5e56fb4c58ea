#include "runtime-shim/session/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

// Probabilities 0.5, 0.3, 0.15, 0.05, in another order.
const std::vector<float> kSampledLogits = {std::log(0.15f), std::log(0.5f), std::log(0.05f),
                                           std::log(0.3f)};

std::set<uint32_t> PickedIds(const Sampling& sampling) {
  Sampler sampler(sampling);
  std::set<uint32_t> ids;
  for (int i = 0; i < 2000; ++i) ids.insert(sampler.Pick(kSampledLogits).id);
  return ids;
}

Sampling Warm() {
  Sampling sampling;
  sampling.temperature = 1;
  return sampling;
}

TEST(Sampler, IsGreedyByDefaultAndTheLowerIdWinsATie) {
  Sampler sampler((Sampling()));
  EXPECT_EQ(sampler.Pick(kSampledLogits).id, 1u);
  EXPECT_EQ(sampler.Pick(std::vector<float>{1, 3, 3}).id, 1u);
}

TEST(Sampler, LogProbabilitiesAreThoseOfTheModelWhateverTheFilters) {
  EXPECT_NEAR(Sampler(Sampling()).Pick(kSampledLogits).logprob, std::log(0.5), 1e-6);
  Sampling sampling = Warm();
  sampling.temperature = 0.1f;
  sampling.top_k = 1;
  const NextToken next = Sampler(sampling).Pick(kSampledLogits);
  EXPECT_EQ(next.id, 1u);
  EXPECT_NEAR(next.logprob, std::log(0.5), 1e-6);
}

TEST(Sampler, LogProbabilitiesDoNotOverflow) {
  const std::vector<float> logits = {10000, 9999, -10000};
  EXPECT_NEAR(LogProbability(logits, 1), -1 - std::log1p(std::exp(-1.0)), 1e-9);
}

TEST(Sampler, EachFilterKeepsTheRightTokens) {
  EXPECT_EQ(PickedIds(Warm()), (std::set<uint32_t>{0, 1, 2, 3}));
  Sampling top_k = Warm();
  top_k.top_k = 2;
  EXPECT_EQ(PickedIds(top_k), (std::set<uint32_t>{1, 3}));
  Sampling top_p = Warm();
  top_p.top_p = 0.75f;
  EXPECT_EQ(PickedIds(top_p), (std::set<uint32_t>{1, 3}));
  Sampling min_p = Warm();
  min_p.min_p = 0.25f;  // of 0.5
  EXPECT_EQ(PickedIds(min_p), (std::set<uint32_t>{0, 1, 3}));
}

TEST(Sampler, FiltersUseTheDistributionBeforeTheTemperature) {
  Sampling hot = Warm();
  hot.temperature = 100;
  hot.top_p = 0.75f;
  EXPECT_EQ(PickedIds(hot), (std::set<uint32_t>{1, 3}));
}

TEST(Sampler, AlwaysKeepsAtLeastOneToken) {
  Sampling narrow = Warm();
  narrow.top_p = 1e-6f;
  narrow.min_p = 1;
  EXPECT_EQ(PickedIds(narrow), (std::set<uint32_t>{1}));
}

TEST(Sampler, DrawsTokensAsOftenAsTheyAreLikely) {
  Sampler sampler(Warm());
  std::map<uint32_t, int> counts;
  for (int i = 0; i < 20000; ++i) ++counts[sampler.Pick(kSampledLogits).id];
  EXPECT_NEAR(counts[1] / 20000.0, 0.5, 0.02);
  EXPECT_NEAR(counts[2] / 20000.0, 0.05, 0.01);
}

TEST(Sampler, EqualSeedsGiveEqualTokens) {
  Sampling other = Warm();
  other.seed = 1;
  Sampler a(Warm()), b(Warm()), c(other);
  std::vector<uint32_t> from_a, from_b, from_c;
  for (int i = 0; i < 50; ++i) {
    from_a.push_back(a.Pick(kSampledLogits).id);
    from_b.push_back(b.Pick(kSampledLogits).id);
    from_c.push_back(c.Pick(kSampledLogits).id);
  }
  EXPECT_EQ(from_a, from_b);
  EXPECT_NE(from_a, from_c);
}

// The first numbers of SplitMix64 as its authors' C code prints them.
TEST(Sampler, TheGeneratorIsSplitMix64) {
  RandomBits random(1234567);
  EXPECT_EQ(random.Next(), 6457827717110365317u);
  EXPECT_EQ(random.Next(), 3203168211198807973u);
  EXPECT_EQ(random.Next(), 9817491932198370423u);
  for (int i = 0; i < 1000; ++i) {
    const double value = random.Uniform();
    ASSERT_GE(value, 0);
    ASSERT_LT(value, 1);
  }
}

TEST(Sampler, InvalidSettingsAreRefusedByName) {
  const auto message = [](auto change) {
    Sampling sampling;
    change(sampling);
    const auto checked = CheckSampling(sampling);
    return checked ? "accepted" : checked.error().message;
  };
  EXPECT_EQ(message([](Sampling&) {}), "accepted");
  EXPECT_THAT(message([](Sampling& s) { s.temperature = -1; }),
              HasSubstr("temperature: expected 0 or more, found -1"));
  EXPECT_THAT(message([](Sampling& s) { s.temperature = std::numeric_limits<float>::quiet_NaN(); }),
              HasSubstr("temperature"));
  EXPECT_THAT(message([](Sampling& s) { s.top_p = 0; }), HasSubstr("top-p"));
  EXPECT_THAT(message([](Sampling& s) { s.top_p = 1.5f; }), HasSubstr("top-p"));
  EXPECT_THAT(message([](Sampling& s) { s.min_p = -0.5f; }), HasSubstr("min-p: expected 0 to 1"));
}

}  // namespace
}  // namespace moepack::runtime
