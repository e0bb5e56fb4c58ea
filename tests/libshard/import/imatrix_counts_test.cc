#include <cmath>

#include "tests/libshard/import/imported.h"
#include "tests/libshard/recipe/imatrix_file.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string ImatrixOf(const std::vector<fixtures::ImatrixPart>& parts) {
  return fixtures::GgufBytes(fixtures::ImatrixFile(parts));
}

TEST(ImatrixCounts, CountsPerExpertAreThoseOfTheProfile) {
  const ExpertScores scores = Imported("imatrix.gguf", ForTiny());
  EXPECT_EQ(scores.basis, ScoreBasis::kCount);
  EXPECT_EQ(SumOfScores(scores), ProfiledCounts());
  EXPECT_EQ(scores.sessions.at(0).tokens, 256u);
  EXPECT_THAT(scores.warnings, IsEmpty());
}

TEST(ImatrixCounts, TakesLayersExpertsAndTopKFromTheFileWithoutAModel) {
  EXPECT_EQ(Imported("imatrix.gguf").layers, TinyLayers());
}

TEST(ImatrixCounts, OneCountForAllExpertsIsRefusedWithTheReason) {
  const Error error = ImportError(FixtureBytes("imatrix-one-count.gguf"));
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(
      error.message,
      "in: tensor \"blk.0.ffn_gate_exps.weight.counts\": expected one count per expert, found "
      "one for all of them, which says nothing of which experts were chosen");
}

TEST(ImatrixCounts, RefusesTheLegacyFormBecauseItHasOneCountForAllExperts) {
  const Error error = ImportError(FixtureBytes("imatrix-legacy.dat"));
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "in: legacy importance matrix: expected one count per expert, found one for all of "
            "them, which says nothing of which experts were chosen");
}

TEST(ImatrixCounts, AnImportanceMatrixOfADenseModelIsRefused) {
  EXPECT_EQ(ImportError(ImatrixOf({{"blk.0.attn_q.weight", {1, 2}, {2}}})).message,
            "in: expected counts of ffn_gate_exps, ffn_up_exps or ffn_down_exps, found none");
}

TEST(ImatrixCounts, AnotherGgufFileIsRefused) {
  fixtures::GgufFile file;
  file.pairs = {fixtures::GgufPairString("general.type", "model")};
  EXPECT_EQ(ImportError(fixtures::GgufBytes(file)).message,
            "in: general.type: expected \"imatrix\", found \"model\"");
  file.pairs.clear();
  EXPECT_EQ(ImportError(fixtures::GgufBytes(file)).message,
            "in: general.type: expected \"imatrix\", found none");
}

TEST(ImatrixCounts, WarnsOfCountsThatDifferBetweenTensors) {
  const ExpertScores scores =
      ImportedBytes(ImatrixOf({{"blk.1.ffn_gate_exps.weight", {1, 1}, {300, 212}},
                               {"blk.1.ffn_down_exps.weight", {1, 1}, {300, 211}}}));
  EXPECT_THAT(scores.warnings,
              ElementsAre("in: layer 1: counts of its tensors differ; the first one is taken"));
  EXPECT_THAT(scores.sessions.at(0).scores, ElementsAre(300, 212));
}

// Chunks may be shorter than their size: ImatrixFile says 8 of 256 tokens.
TEST(ImatrixCounts, TakesTheTokensFromTheRouters) {
  const fixtures::ImatrixPart experts{"blk.1.ffn_up_exps.weight", {1, 1, 1}, {5, 2, 3}};
  const ExpertScores exact =
      ImportedBytes(ImatrixOf({{"blk.1.ffn_gate_inp.weight", {1}, {5}}, experts}));
  EXPECT_EQ(exact.sessions.at(0).tokens, 5u);
  EXPECT_EQ(exact.layers.at(0).top_k, 2u);
  const ExpertScores nominal = ImportedBytes(ImatrixOf({experts}));
  EXPECT_EQ(nominal.sessions.at(0).tokens, 2048u);
  EXPECT_EQ(nominal.layers.at(0).top_k, 0u);
}

TEST(ImatrixCounts, RefusesARouterThatDoesNotCountTokens) {
  const auto refusal = [](const std::vector<float>& counts) {
    const std::vector<float> sums(counts.size(), 1);
    return ImportError(ImatrixOf({{"blk.1.ffn_gate_inp.weight", sums, counts}})).message;
  };
  const std::string tensor = "in: tensor \"blk.1.ffn_gate_inp.weight.counts\": ";
  EXPECT_EQ(refusal({INFINITY}), tensor + "expected one number of tokens, found inf");
  EXPECT_EQ(refusal({-1}), tensor + "expected one number of tokens, found -1");
  EXPECT_EQ(refusal({1, 1}), tensor + "expected one number of tokens, found 2");
}

TEST(ImatrixCounts, RefusesCountsThatAreNotNumbers) {
  EXPECT_EQ(
      ImportError(ImatrixOf({{"blk.1.ffn_up_exps.weight", {1, 1}, {1, std::nanf("")}}})).message,
      "in: layer 1: expert 1: expected a finite score, not negative, found nan");
  EXPECT_EQ(ImportError(ImatrixOf({{"blk.1.ffn_up_exps.weight", {1, 1}, {1, -4}}})).message,
            "in: layer 1: expert 1: expected a finite score, not negative, found -4");
}

TEST(ImatrixCounts, ALayerTableThatIsTooLongIsRefused) {
  const std::vector<float> counts(4097, 1);
  EXPECT_EQ(ImportError(ImatrixOf({{"blk.1.ffn_up_exps.weight", counts, counts}})).message,
            "in: tensor \"blk.1.ffn_up_exps.weight.counts\": expected 1 to 4096 F32 values, found "
            "16388 bytes of f32");
}

}  // namespace
}  // namespace moepack
