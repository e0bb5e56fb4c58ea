#include "runtime-shim/refit/node_experts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/runtime-shim/support/tiny_weights.h"

namespace moepack::runtime {
namespace {

std::vector<float> RowsOf(const std::vector<float>& values, size_t columns,
                          const std::vector<uint32_t>& rows) {
  std::vector<float> some;
  if (values.empty()) return some;
  for (const uint32_t row : rows) {
    const auto first = values.begin() + static_cast<ptrdiff_t>(row * columns);
    some.insert(some.end(), first, first + static_cast<ptrdiff_t>(columns));
  }
  return some;
}

class NeuronsOf : public testing::TestWithParam<const char*> {};

// gpt-oss has biases, llama4 fused gate and up, nemotron no gate.
TEST_P(NeuronsOf, AreRowsOfTheirExpert) {
  const auto weights = TinyWeights(GetParam());
  const auto whole = ReadSourceExperts(*weights, weights->sets, 1, {3});
  ASSERT_TRUE(whole) << whole.error().message;
  const std::vector<uint32_t> wanted = {4, 0, 2};
  const auto some = ReadNeurons(*weights, weights->sets, 1, 3, wanted);
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_EQ(some->width, 3u);
  EXPECT_EQ(some->hidden, whole->hidden);
  EXPECT_EQ(some->up, RowsOf(whole->up, whole->hidden, wanted));
  EXPECT_EQ(some->gate, RowsOf(whole->gate, whole->hidden, wanted));
  EXPECT_EQ(some->up_bias, RowsOf(whole->up_bias, 1, wanted));
  EXPECT_EQ(some->gate_bias, RowsOf(whole->gate_bias, 1, wanted));
  EXPECT_TRUE(some->down.empty() && some->router.empty());
  const auto absent = ReadNeurons(*weights, weights->sets, 1, 99, wanted);
  ASSERT_FALSE(absent);
  EXPECT_THAT(absent.error().message, testing::HasSubstr("99"));
}

TEST_P(NeuronsOf, AreTheSameWhereverTheExpertIs) {
  const auto weights = TinyWeights(GetParam()), apart = WithExpertsApart(*weights);
  const auto whole = ReadSourceExperts(*weights, weights->sets, 1, {1, 3, 7});
  const auto found = ReadSourceExperts(*apart, apart->sets, 1, {1, 3, 7});
  ASSERT_TRUE(whole && found);
  EXPECT_EQ(found->gate, whole->gate);
  EXPECT_EQ(found->up, whole->up);
  EXPECT_EQ(found->down, whole->down);
  const std::vector<uint32_t> wanted = {4, 0, 2};
  const auto neurons = ReadNeurons(*weights, weights->sets, 1, 3, wanted);
  const auto others = ReadNeurons(*apart, apart->sets, 1, 3, wanted);
  ASSERT_TRUE(neurons && others);
  EXPECT_EQ(others->gate, neurons->gate);
  EXPECT_EQ(others->up, neurons->up);
}

INSTANTIATE_TEST_SUITE_P(Families, NeuronsOf, testing::Values("qwen3moe", "gpt-oss", "llama4"),
                         [](const auto& family) {
                           std::string name = family.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace moepack::runtime
