#include "runtime-shim/refit/importance.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "quant/format.h"
#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;
using testing::Key;
using testing::UnorderedElementsAre;

constexpr const char* kUp = "blk.0.ffn_up_exps.weight";
constexpr const char* kDown = "blk.0.ffn_down_exps.weight";

// The tensors of a layer of the source; only their names are used.
ExpertSet NamedTensors() {
  ExpertSet set;
  const quant::Format* const f32 = quant::FindFormat("f32");
  for (const char* name : {kUp, kDown, "blk.0.ffn_up_exps.bias", "blk.1.ffn_up_exps.weight"})
    set.tensors.push_back({name, f32, {}, {}});
  return set;
}

ImatrixEntries EntriesOf(MadeNode& made, bool own) {
  const ExpertSet set = NamedTensors();
  RefitImportance importance;
  const Status added = importance.Add(made.products(), std::span(&set, 1), made.node, own);
  EXPECT_TRUE(added) << added.error().message;
  return importance.entries();
}

TEST(RefitImportance, SumsTheSquaredInputsOfEveryExpert) {
  MadeNode made;
  made.Run();
  const ImatrixEntries entries = EntriesOf(made, false);
  EXPECT_THAT(entries, UnorderedElementsAre(Key(kUp), Key(kDown)));
  const std::vector<float> inputs = ValuesOf(*made.node.inputs);
  const MadeShape& shape = made.shape();
  const std::vector<ExpertTokens> tokens = TokensOfExperts(made.node, false);
  const ImatrixEntry &up = entries.at(kUp), &down = entries.at(kDown);
  ASSERT_EQ(up.counts.size(), shape.whole);
  for (size_t place = 0; place < shape.ids.size(); ++place) {
    const uint32_t id = shape.ids[place];
    EXPECT_EQ(up.counts[id], static_cast<float>(tokens[place].tokens.size()));
    std::vector<double> wide(shape.hidden, 0), narrow(shape.width, 0);
    for (const uint32_t token : tokens[place].tokens) {
      const float* const x = inputs.data() + size_t{token} * shape.hidden;
      const std::vector<double> act = PlainActivations(made.node.experts, place, x);
      for (size_t i = 0; i < wide.size(); ++i) wide[i] += double{x[i]} * x[i];
      for (size_t i = 0; i < narrow.size(); ++i) narrow[i] += act[i] * act[i];
    }
    for (size_t i = 0; i < wide.size(); ++i)
      EXPECT_NEAR(up.sums[id * wide.size() + i], wide[i], 1e-4 * wide[i]);
    for (size_t i = 0; i < narrow.size(); ++i)
      EXPECT_NEAR(down.sums[id * narrow.size() + i], narrow[i], 1e-4 * narrow[i]);
  }
  EXPECT_EQ(up.counts[1], 0) << "the node has no expert 1";
}

TEST(RefitImportance, GivesARefittedGroupEntriesForItsChangeableExperts) {
  MadeNode made;
  made.node.experts.group = 2;
  made.node.fixed[1] = true;
  made.Run();
  const ImatrixEntries entries = EntriesOf(made, true);
  const ImatrixEntry &whole = entries.at(kUp), &own = entries.at("group.002." + std::string(kUp));
  ASSERT_EQ(own.counts.size(), 3u);
  EXPECT_EQ(own.counts, (std::vector<float>{whole.counts[0], whole.counts[3], whole.counts[5]}));
  EXPECT_EQ(own.sums.size(), 3 * made.shape().hidden);
}

// A token with little weight must not decide where precision is kept.
TEST(RefitImportance, WeighsTokensLikeTheirErrors) {
  MadeNode made;
  made.Run();
  NodeLayer& node = made.node;
  for (size_t token = 1; token < node.tokens(); ++token)
    node.fit_weights[token] = node.fold_weights[token] = 0;
  node.fit_weights[0] = 0.5F;
  const ImatrixEntries entries = EntriesOf(made, false);
  const uint32_t id = node.experts.expert_ids[node.routes.places[0]];
  const std::vector<float> inputs = ValuesOf(*node.inputs);
  EXPECT_EQ(entries.at(kUp).counts[id], 1);
  EXPECT_NEAR(entries.at(kUp).sums[id * made.shape().hidden], inputs[0] * inputs[0], 1e-6);
}

TEST(RefitImportance, NamesASumThatIsTooLarge) {
  MadeNode made;
  made.Run();
  const std::vector<float> huge(made.shape().tokens * made.shape().hidden, 1e20F);
  RowStore inputs = StoreOf(huge, made.shape().hidden);
  made.node.inputs = &inputs;
  const ExpertSet set = NamedTensors();
  RefitImportance importance;
  const Status added = importance.Add(made.products(), std::span(&set, 1), made.node, false);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kCorrupt);
  EXPECT_THAT(added.error().message, HasSubstr("expected a sum of squares that F32 holds, found"));
}

}  // namespace
}  // namespace moepack::runtime
