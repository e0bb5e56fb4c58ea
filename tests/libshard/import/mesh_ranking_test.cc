#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kHeadings = "expert_id,total_mass,mass_fraction,selection_count\n";

TEST(MeshRanking, EveryLayerGetsTheSameRankingAndAWarning) {
  const ExpertScores scores = Imported("mesh-headings.csv", ForTiny());
  EXPECT_TRUE(scores.layer_agnostic);
  EXPECT_EQ(scores.basis, ScoreBasis::kGateMass);
  EXPECT_EQ(scores.layers, TinyLayers());
  const std::vector<float>& all = scores.sessions.at(0).scores;
  for (size_t e = 0; e < 16; ++e) {
    EXPECT_EQ(all[e], all[16 + e]);
    EXPECT_EQ(all[e], all[32 + e]);
  }
  EXPECT_EQ(all[8], 82.25F);
  EXPECT_THAT(scores.warnings,
              ElementsAre(StatisticsFixture("mesh-headings.csv") +
                          ": one ranking for all layers: ids of different layers were added up, "
                          "which makes it little better than chance; profile the model instead"));
}

TEST(MeshRanking, IsOneLayerWithoutAModel) {
  EXPECT_THAT(Imported("mesh-analyzer.csv").layers, ElementsAre(MoeLayerShape{0, 16, 2}));
}

TEST(MeshRanking, RepairsTheArtefactOfTheFirstExpert) {
  const ExpertScores scores = Imported("mesh-analyzer.csv", ForTiny());
  EXPECT_THAT(scores.warnings, Contains(HasSubstr(": repaired: expert 0 leads with 97.2 % of the "
                                                  "selections")));
  // The median of the other fifteen masses.
  EXPECT_EQ(scores.sessions.at(0).scores[0], 34.75F);
  EXPECT_EQ(scores.sessions.at(0).scores[8], 82.25F);
}

TEST(MeshRanking, DoesNotMistakeAnExpertThatEveryTokenChoosesForTheArtefact) {
  // 100 tokens of two experts each: expert 0 in all of them.
  const std::string text =
      "# Experts: 3 (top-2)\nexpert_id,gate_mass,mass_pct,selection_count\n0,80,80,100\n"
      "1,12,12,60\n2,8,8,40\n";
  const ExpertScores scores = ImportedBytes("# MoE expert ranking by gate mass\n" + text);
  EXPECT_EQ(scores.sessions.at(0).scores[0], 80.0F);
  EXPECT_THAT(scores.warnings, Not(Contains(HasSubstr("repaired"))));
}

TEST(MeshRanking, TheCacheFormHasOnlyRanks) {
  const ExpertScores scores = Imported("mesh-cache.csv", ForTiny());
  EXPECT_EQ(scores.basis, ScoreBasis::kCount);
  const std::vector<float>& all = scores.sessions.at(0).scores;
  EXPECT_EQ(all[8], 16.0F);
  EXPECT_EQ(all[11], 15.0F);
  EXPECT_EQ(all[15], 1.0F);
  EXPECT_THAT(scores.warnings, Contains(HasSubstr("ranks and no counts")));
}

TEST(MeshRanking, WarnsOfACacheRankingThatExpertZeroLeads) {
  const ExpertScores scores = ImportedBytes("# mesh-llm-moe-ranking=v1\n0\n2\n1\n");
  EXPECT_THAT(scores.warnings, Contains(HasSubstr("in: expert 0 leads, as it does")));
}

TEST(MeshRanking, RequiresOneRowPerExpert) {
  EXPECT_EQ(ImportError("# mesh-llm-moe-ranking=v1\n").message,
            "in: rows: expected one per expert, found none");
  EXPECT_EQ(ImportError("# MoE expert ranking\n# Experts: 3 (top-1)\n0\n1\n").message,
            "in: rows: expected one for each of 3 experts, found 2");
  EXPECT_EQ(ImportError("# MoE expert ranking\n0\n1\n", ForTiny()).message,
            "in: rows: expected one for each of the 16 experts of layer 0, found 2");
  EXPECT_EQ(ImportError("# MoE expert ranking\n0\n0\n").message,
            "in: expert 0: expected once, found twice");
  EXPECT_EQ(ImportError("# MoE expert ranking\n0\n2\n").message,
            "in: expert: expected an id below 2, found 2");
}

TEST(MeshRanking, NamesTheLineOfAnInvalidRow) {
  const std::string expected =
      "in: line 2: expected an id alone, or an id, a mass, its share and a count, found ";
  EXPECT_EQ(ImportError(std::string(kHeadings) + "0,1\n").message, expected + "\"0,1\"");
  EXPECT_EQ(ImportError(std::string(kHeadings) + "x,1,1,1\n").message, expected + "\"x,1,1,1\"");
  EXPECT_EQ(ImportError(std::string(kHeadings) + "0,-1,1,1\n").message, expected + "\"0,-1,1,1\"");
  EXPECT_EQ(ImportError(std::string(kHeadings) + "0,nan,1,1\n").message,
            expected + "\"0,nan,1,1\"");
  EXPECT_EQ(ImportError(std::string(kHeadings) + "0,1,1,1\n1\n").message,
            "in: line 3: expected as many columns as in the rows before, found \"1\"");
}

}  // namespace
}  // namespace moepack
