// What runs at once, and in how many passes, changes no figure.
#include <gtest/gtest.h>

#include "tests/runtime-shim/eval/evaluation_sample.h"

namespace moepack::runtime {
namespace {

void ExpectSame(const Comparison& found, const Comparison& expected) {
  EXPECT_EQ(found.divergence, expected.divergence);
  EXPECT_EQ(found.agreements, expected.agreements);
}

void ExpectSame(const SessionMeasure& found, const SessionMeasure& expected) {
  EXPECT_EQ(found.name, expected.name);
  EXPECT_EQ(found.reference, expected.reference);
  EXPECT_EQ(found.full, expected.full);
  ExpectSame(found.quantization, expected.quantization);
  EXPECT_EQ(found.full_loop->tokens, expected.full_loop->tokens);
  EXPECT_EQ(found.reference_loop->tokens, expected.reference_loop->tokens);
  ASSERT_EQ(found.groups.size(), expected.groups.size());
  for (size_t i = 0; i < found.groups.size(); ++i) {
    const GroupMeasure &group = found.groups[i], &other = expected.groups[i];
    EXPECT_EQ(group.log_probability, other.log_probability);
    ExpectSame(group.from_full, other.from_full);
    ExpectSame(group.from_reference, other.from_reference);
    EXPECT_EQ(group.teacher, other.teacher);
    EXPECT_EQ(group.on_policy, other.on_policy);
    EXPECT_EQ(group.loop->tokens, other.loop->tokens);
    EXPECT_EQ(group.loop->period, other.loop->period);
  }
}

// Windows of one session and of several, of different lengths, side by side; and groups in passes
// of their own.
TEST_F(Evaluation, DoesNotDependOnWindowsAndGroupsThatRunAtOnce) {
  input_.reference = Player("reference", 0.625, {0, 1, 2, 3}, options_);
  input_.groups.push_back(Player("group 2", 0.4, {1, 2}, options_));
  sessions_.push_back({"mixed", "", {0, 1, 1, 0, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 1, 1, 0, 1, 0}});
  for (const bool half : {false, true}) {
    options_.score_half = half;
    if (half) sessions_.erase(sessions_.begin());
    options_.windows = 1;
    options_.groups_at_once = 0;
    options_.chunk = 3;
    const auto expected = Run();
    for (const uint32_t windows : {1u, 2u, 3u, 100u}) {
      for (const uint32_t groups : {0u, 1u, 2u, 3u}) {
        for (const uint32_t chunk : {3u, 8u}) {
          SCOPED_TRACE(testing::Message() << windows << " windows, " << groups << " groups");
          options_.windows = windows;
          options_.groups_at_once = groups;
          options_.chunk = chunk;
          const auto found = Run();
          ASSERT_EQ(found.size(), expected.size());
          for (size_t i = 0; i < found.size(); ++i) ExpectSame(found[i], expected[i]);
        }
      }
    }
  }
}

}  // namespace
}  // namespace moepack::runtime
