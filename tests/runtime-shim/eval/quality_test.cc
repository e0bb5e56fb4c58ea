#include "runtime-shim/eval/quality.h"

#include <gtest/gtest.h>

#include <cmath>

namespace moepack::runtime {
namespace {

Participant Named(const std::string& label, std::optional<uint32_t> group = std::nullopt) {
  return {label, {}, {}, group};
}

// One layer; `nats` of each token under the full run and a group, and their divergence.
SessionMeasure Measured(const std::string& name, const std::string& bucket,
                        const std::vector<double>& full, const std::vector<double>& masked,
                        double divergence) {
  SessionMeasure measure;
  measure.name = name;
  measure.bucket = bucket;
  measure.full = full;
  GroupMeasure group;
  group.log_probability = masked;
  group.from_full.divergence.assign(full.size(), divergence);
  group.from_full.agreements = full.size() / 2;
  group.teacher = {std::vector<float>(full.size(), 0.5f)};
  group.on_policy = group.teacher;
  measure.groups = {group, group};
  measure.groups[1].from_full.divergence.assign(full.size(), 2 * divergence);
  return measure;
}

EvalInput TwoGroups() {
  EvalInput input;
  input.routers = {{0, Routing()}};
  input.full = Named("unmasked");
  input.groups = {Named("group 0", 0), Named("group 2", 2)};
  return input;
}

TEST(QualityRecordOf, HasFiguresOfEveryGroupAndBucket) {
  const std::vector<SessionMeasure> measures = {
      Measured("a", "code", {-1, -1}, {-1.5, -1.5}, 0.25),
      Measured("b", "prose", {-2, -2, -2, -2}, {-3, -3, -3, -3}, 1)};
  const manifest::QualityRecord record = RecordOf(TwoGroups(), measures);
  EXPECT_EQ(record.sessions, 2u);
  EXPECT_EQ(record.tokens, 6u);
  ASSERT_EQ(record.groups.size(), 2u);
  EXPECT_EQ(record.groups[1].first, 2u);
  const manifest::QualityRow& row = record.groups[0].second;
  EXPECT_EQ(row.all.tokens, 6u);
  EXPECT_DOUBLE_EQ(row.all.split->kld.mean, 0.75);
  EXPECT_NEAR(row.all.split->extra_nats.mean, 5.0 / 6, 1e-6);
  ASSERT_EQ(row.buckets.size(), 2u);
  EXPECT_EQ(row.buckets[0].first, "code");
  EXPECT_EQ(row.buckets[0].second.sessions, 1u);
  EXPECT_DOUBLE_EQ(row.buckets[0].second.nats.mean, 1.5);
  EXPECT_DOUBLE_EQ(row.buckets[0].second.split->kld.mean, 0.25);
  EXPECT_DOUBLE_EQ(row.buckets[1].second.split->kld.mean, 1);
  EXPECT_DOUBLE_EQ(record.groups[1].second.buckets[1].second.split->kld.mean, 2);
  EXPECT_DOUBLE_EQ(record.unmasked->buckets[1].second.nats.mean, 2);
  EXPECT_FALSE(record.reference);
  // Half of the tokens agree: the error of a share of six tokens.
  EXPECT_DOUBLE_EQ(row.all.split->top1.mean, 0.5);
  EXPECT_NEAR(row.all.split->top1.error, 0.5 / std::sqrt(6.0), 1e-6);
}

TEST(QualityRecordOf, HasNoBucketsUnlessSessionsNameThem) {
  const std::vector<SessionMeasure> measures = {Measured("a", "", {-1, -1}, {-2, -2}, 0.25)};
  const manifest::QualityRecord record = RecordOf(TwoGroups(), measures);
  EXPECT_TRUE(record.best.buckets.empty());
  EXPECT_EQ(record.best.all.sessions, 1u);
}

TEST(TokensDigestOf, DependsOnEveryNameBucketAndToken) {
  const std::vector<TokenSession> tokens = {{"a", "b", {1, 2}}};
  const std::string digest = TokensDigest(tokens);
  EXPECT_EQ(digest.size(), 64u);
  EXPECT_EQ(digest, TokensDigest(tokens));
  for (const TokenSession& other : std::vector<TokenSession>{
           {"ab", "", {1, 2}}, {"a", "c", {1, 2}}, {"a", "b", {2, 1}}, {"a", "b", {1}}})
    EXPECT_NE(TokensDigest(std::vector<TokenSession>{other}), digest) << other.name;
}

}  // namespace
}  // namespace moepack::runtime
