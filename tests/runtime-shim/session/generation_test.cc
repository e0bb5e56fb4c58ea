#include "runtime-shim/session/generation.h"

#include <gtest/gtest.h>

#include "tests/runtime-shim/fake_session.h"

namespace moepack::runtime {
namespace {

// After token t comes t + 1 of 4.
std::vector<float> Next(uint32_t, uint32_t token) {
  std::vector<float> logits(4);
  logits[(token + 1) % 4] = 5;
  return logits;
}

struct Running {
  explicit Running(uint32_t context = 100) {
    auto session = std::make_unique<FakeSession>(Next, context);
    fake = session.get();
    generation = std::make_unique<Generation>(std::move(session), Sampling());
  }
  FakeSession* fake;
  std::unique_ptr<Generation> generation;
};

const std::vector<uint32_t> kPrompt = {0, 1};

TEST(Generation, ContinuesThePromptAndRunsATokenWhenTheNextOneIsRequested) {
  Running run;
  ASSERT_TRUE(run.generation->Prefill(kPrompt));
  EXPECT_EQ(run.generation->Decode()->id, 2u);
  EXPECT_EQ(run.fake->fed_, kPrompt);
  EXPECT_EQ(run.generation->Decode()->id, 3u);
  EXPECT_EQ(run.fake->fed_, (std::vector<uint32_t>{0, 1, 2}));
}

TEST(Generation, ALaterPromptFollowsTheGeneratedTokens) {
  Running run;
  ASSERT_TRUE(run.generation->Prefill(kPrompt));
  ASSERT_TRUE(run.generation->Decode());
  const std::vector<uint32_t> more = {0};
  ASSERT_TRUE(run.generation->Prefill(more));
  EXPECT_EQ(run.fake->fed_, (std::vector<uint32_t>{0, 1, 2, 0}));
  EXPECT_EQ(run.generation->Decode()->id, 1u);
}

TEST(Generation, FillsTheContextToItsLastPosition) {
  Running run(3);
  ASSERT_TRUE(run.generation->Prefill(kPrompt));
  ASSERT_TRUE(run.generation->Decode());
  EXPECT_FALSE(run.generation->full());
  ASSERT_TRUE(run.generation->Decode());
  EXPECT_TRUE(run.generation->full());
  EXPECT_FALSE(run.generation->Decode());
}

TEST(Generation, RefusesToGenerateWithoutAPrompt) {
  Running run;
  const auto next = run.generation->Decode();
  ASSERT_FALSE(next);
  EXPECT_EQ(next.error().code, Code::kInvalidArgument);
  EXPECT_EQ(next.error().message, "decode: expected a prompt, found an empty session");
}

}  // namespace
}  // namespace moepack::runtime
