// Passes of several sessions: every part gets the same bits as alone.
#include "runtime-shim/session/pass.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "runtime-shim/devices/executors.h"
#include "tests/runtime-shim/fake_session.h"
#include "tests/runtime-shim/support/tiny_weights.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

constexpr uint32_t kVocabularySize = 40;
const std::vector<uint32_t> kFirst = {3, 17, 5, 5, 39, 0, 21, 8}, kSecond = {30, 2, 11},
                            kThird = {8, 8, 1, 33, 20, 19, 4, 4, 4, 0, 12};

const ExpertIds kAllExperts = {0, 1, 2, 3, 4, 5, 6, 7};

// Sessions of one model with different masks.
class TogetherOf : public testing::TestWithParam<const char*> {
 protected:
  explicit TogetherOf(const char* architecture) : weights_(TinyWeights(architecture)) {
    auto executor = OpenExecutor("cpu", {});
    EXPECT_TRUE(executor.has_value());
    executor_ = std::move(*executor);
    auto model = Model::Load(weights_, *executor_);
    EXPECT_TRUE(model.has_value());
    model_ = std::move(*model);
  }
  TogetherOf() : TogetherOf(GetParam()) {}

  std::unique_ptr<Session> Open(const ExpertIds& ids, uint32_t batch) {
    SessionOptions options;
    options.logit_bytes = logit_bytes_;
    options.context = 32;
    options.batch = batch;
    // A table may name any expert.
    const bool whole = model_->spec().layer[0].routes_by_table;
    auto session = Session::Open(*model_, {{0, whole ? kAllExperts : ids}, {1, ids}}, options);
    EXPECT_TRUE(session.has_value());
    return std::move(*session);
  }
  std::vector<std::unique_ptr<Session>> OpenThree(uint32_t batch) {
    std::vector<std::unique_ptr<Session>> sessions;
    for (const ExpertIds& ids : {kAllExperts, {1, 3, 6}, {0, 2, 3, 7}})
      sessions.push_back(Open(ids, batch));
    return sessions;
  }

  uint64_t logit_bytes_ = 1 << 20;
  std::shared_ptr<Weights> weights_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Model> model_;
};

// The logits of each part, assembled from its slices.
struct Gathered {
  std::vector<std::vector<float>> parts;
  Status Add(const LogitsSlice& slice) {
    parts.resize(slice.parts.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      EXPECT_EQ(slice.width, kVocabularySize);
      if (!slice.parts[i].empty()) {
        EXPECT_EQ(parts[i].size(), size_t{slice.first} * slice.width);
      }
      parts[i].insert(parts[i].end(), slice.parts[i].begin(), slice.parts[i].end());
    }
    return Ok();
  }
};

TEST_P(TogetherOf, GivesEachPartTheSameBitsAsAlone) {
  const auto alone = OpenThree(32), together = OpenThree(32);
  const std::vector<uint32_t>* texts[] = {&kFirst, &kSecond, &kThird};
  // The second time, the sessions continue from different positions, and only the last rows are
  // read.
  for (const LogitsOf which : {LogitsOf::kAll, LogitsOf::kLast}) {
    std::vector<Part> parts;
    for (size_t i = 0; i < 3; ++i) parts.push_back({together[i].get(), *texts[i]});
    Gathered gathered;
    const Status done = together[0]->FeedTogether(
        parts, which, [&](const LogitsSlice& slice) { return gathered.Add(slice); });
    ASSERT_TRUE(done) << done.error().message;
    for (size_t i = 0; i < 3; ++i) {
      const auto expected = alone[i]->Feed(*texts[i], which);
      ASSERT_TRUE(expected.has_value());
      EXPECT_EQ(gathered.parts[i], *expected) << i;
      EXPECT_EQ(together[i]->length(), alone[i]->length());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, TogetherOf,
                         testing::Values("qwen3moe", "deepseek2", "gpt-oss", "llama4", "glm4moe",
                                         "deepseek4"),
                         [](const testing::TestParamInfo<const char*>& architecture) {
                           std::string name = architecture.param;
                           std::erase(name, '-');
                           return name;
                         });

class Together3 : public TogetherOf {
 protected:
  Together3() : TogetherOf("qwen3moe") {}
};

// Room for seven rows: two of each part at a time.
TEST_F(Together3, ShowsLogitsInSlicesThatFit) {
  logit_bytes_ = 7 * kVocabularySize * sizeof(float);
  const auto sessions = OpenThree(32);
  const auto alone = OpenThree(1);
  const Part parts[] = {
      {sessions[0].get(), kFirst}, {sessions[1].get(), kSecond}, {sessions[2].get(), kThird}};
  Gathered gathered;
  std::vector<uint32_t> firsts;
  ASSERT_TRUE(sessions[0]->FeedTogether(parts, LogitsOf::kAll, [&](const LogitsSlice& slice) {
    firsts.push_back(slice.first);
    return gathered.Add(slice);
  }));
  EXPECT_EQ(firsts, (std::vector<uint32_t>{0, 2, 4, 6, 8, 10}));
  for (size_t i = 0; i < 3; ++i) {
    const auto expected = alone[i]->Feed(parts[i].tokens, LogitsOf::kAll);
    ASSERT_TRUE(expected.has_value());
    EXPECT_EQ(gathered.parts[i], *expected) << i;
  }
}

TEST_F(Together3, LeavesSessionsAsTheyWereWhenOneOfThemCannotRun) {
  const auto sessions = OpenThree(64);
  const std::vector<uint32_t> many(33, 1);
  const Part parts[] = {{sessions[0].get(), kFirst}, {sessions[1].get(), many}};
  const auto ignore = [](const LogitsSlice&) { return Ok(); };
  const Status done = sessions[0]->FeedTogether(parts, LogitsOf::kLast, ignore);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message,
            "tiny: tokens: expected at most 32 more in a context of 32, found 33");
  EXPECT_EQ(sessions[0]->length(), 0u);
}

TEST_F(Together3, PassesOnTheErrorOfTheCallback) {
  const auto sessions = OpenThree(64);
  const Part parts[] = {{sessions[0].get(), kFirst}, {sessions[1].get(), kSecond}};
  const Status done = sessions[0]->FeedTogether(parts, LogitsOf::kLast, [](const LogitsSlice&) {
    return Status(Error{Code::kIo, "full"});
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "full");
  EXPECT_EQ(sessions[0]->length() + sessions[1]->length(), 0u);
}

TEST_F(Together3, NamesThePositionOfTheFirstNan) {
  // Only the second part has this token, in its third position after the two that it holds.
  ValueOf(*weights_, "token_embd.weight", 11 * 32) = std::numeric_limits<float>::quiet_NaN();
  const auto sessions = OpenThree(64);
  ASSERT_TRUE(sessions[1]->Feed(std::vector<uint32_t>{1, 2}, LogitsOf::kLast));
  const Part parts[] = {{sessions[0].get(), kFirst}, {sessions[1].get(), kSecond}};
  const auto ignore = [](const LogitsSlice&) { return Ok(); };
  const Status done = sessions[0]->FeedTogether(parts, LogitsOf::kLast, ignore);
  ASSERT_FALSE(done);
  EXPECT_THAT(done.error().message, HasSubstr("embedding: expected finite numbers"));
  EXPECT_THAT(done.error().message, HasSubstr("for the token at position 4"));
}

TEST_F(Together3, ReportsHowManyTokensHaveRun) {
  std::vector<double> ran;
  SessionOptions options;
  options.context = options.batch = 32;
  options.ran = [&](double tokens) { ran.push_back(tokens); };
  auto first = Session::Open(*model_, {{0, {0, 1}}, {1, {0, 1}}}, options);
  ASSERT_TRUE(first.has_value());
  const auto second = Open({4, 5}, 1);
  const Part parts[] = {{first->get(), kFirst}, {second.get(), kSecond}};
  const auto ignore = [](const LogitsSlice&) { return Ok(); };
  ASSERT_TRUE((*first)->FeedTogether(parts, LogitsOf::kLast, ignore));
  EXPECT_EQ(ran, (std::vector<double>{5.5, 11}));  // two layers
}

// Sessions without support for passes run one after the other.
TEST(FeedTogether, RunsSessionsWithoutPassesOneByOne) {
  const auto logits = [](uint32_t position, uint32_t token) {
    return std::vector<float>{static_cast<float>(position), static_cast<float>(token)};
  };
  FakeSession one(logits), two(logits);
  const uint32_t tokens[] = {7, 8, 9};
  const Part parts[] = {{&one, tokens}, {&two, std::span(tokens).first(1)}};
  std::vector<std::vector<float>> seen;
  ASSERT_TRUE(one.FeedTogether(parts, LogitsOf::kAll, [&](const LogitsSlice& slice) {
    EXPECT_EQ(slice.width, 2u);
    for (const std::span<const float> part : slice.parts)
      seen.emplace_back(part.begin(), part.end());
    return Ok();
  }));
  EXPECT_EQ(seen, (std::vector<std::vector<float>>{{0, 7, 1, 8, 2, 9}, {0, 7}}));
}

}  // namespace
}  // namespace moepack::runtime
