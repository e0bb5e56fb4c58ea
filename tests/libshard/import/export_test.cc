#include "libshard/import/export.h"

#include <nlohmann/json.hpp>

#include "tests/libshard/import/imported.h"

namespace moepack {
namespace {

using ::testing::ElementsAre;

ExpertScores CountsOfProfile() {
  ImportOptions options = ForTiny();
  options.basis = ScoreBasis::kCount;
  return Imported("profile.json", options);
}

std::string Exported(const char* format, const ExpertScores& scores,
                     const ExportOptions& options = {}) {
  const auto text = FindExporter(format)->write(scores, options);
  EXPECT_TRUE(text) << (text ? "" : text.error().message);
  return text ? *text : "";
}

Json ExportedJson(const char* format, const ExpertScores& scores,
                  const ExportOptions& options = {}) {
  const auto document = ParseJson(format, Exported(format, scores, options));
  EXPECT_TRUE(document);
  return document ? *document : Json();
}

Error ExportError(const char* format, const ExpertScores& scores,
                  const ExportOptions& options = {}) {
  const auto text = FindExporter(format)->write(scores, options);
  if (text) return {Code::kInterrupted, "was written"};
  return text.error();
}

// Two layers of three experts; expert 1 of layer 4 leads all.
ExpertScores SmallScores() {
  ExpertScores scores;
  scores.layers = {{1, 3, 2}, {4, 3, 2}};
  scores.sessions = {{"a", "", 10, {5, 5, 2, 1, 90, 0}, {}}, {"b", "", 7, {1, 0, 0, 0, 0, 4}, {}}};
  return scores;
}

TEST(Export, FormatsHaveDistinctNames) {
  for (const Exporter* exporter : Exporters()) EXPECT_EQ(FindExporter(exporter->name), exporter);
  EXPECT_EQ(FindExporter("none"), nullptr);
}

TEST(Export, ReadsBackCounts) {
  const ExpertScores counts = CountsOfProfile();
  for (const char* format : {"hot-cache", "sglang", "ktransformers"}) {
    const ExpertScores read = ImportedBytes(Exported(format, counts), ForTiny());
    EXPECT_EQ(read.basis, ScoreBasis::kCount) << format;
    EXPECT_EQ(SumOfScores(read), SumOfScores(counts)) << format;
  }
}

TEST(Export, ReadsBackRanks) {
  const ExpertScores counts = CountsOfProfile();
  const std::string list = Exported("vllm-ascend", counts);
  const ExpertScores read = ImportedBytes(list, ForTiny());
  EXPECT_EQ(Exported("vllm-ascend", read), list);
  EXPECT_EQ(list, FixtureBytes("expert-list.jsonl"));
}

TEST(Export, ReadsBackAllScores) {
  const ExpertScores scores = Imported("reap.json", ForTiny());
  ExpertScores read = ImportedBytes(Exported("moepack-scores", scores), ForTiny());
  EXPECT_EQ(read.sessions, scores.sessions);
  EXPECT_EQ(read.basis, scores.basis);
}

TEST(Export, RefusesScoresTooLargeToReadBack) {
  ExpertScores scores;
  scores.layers = {{0, 4096, 1}};
  scores.sessions.assign(8192, {"", "", 0, std::vector<float>(4096), {}});
  const Error error = ExportError("moepack-scores", scores);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message, "moepack-scores: expected at most 33554432 numbers, found 33693768");
}

TEST(Export, RanksPutTheLowestOfEqualIdsFirst) {
  EXPECT_EQ(Exported("vllm-ascend", SmallScores()), "{\"1\": [0, 1, 2]}\n{\"4\": [1, 2, 0]}\n");
}

TEST(Export, ScalesScoresThatAreNotCounts) {
  ExpertScores scores = SmallScores();
  scores.basis = ScoreBasis::kGateMass;
  scores.sessions[0].scores[2] = 1e-9F;
  EXPECT_THAT(WholeSums(scores), ElementsAre(66667, 55556, 1, 11111, 1000000, 44444));
}

TEST(Export, AHotCacheWithoutABudgetListsOnlyExperts) {
  const Json json = ExportedJson("hot-cache", SmallScores());
  EXPECT_EQ(json["schema"], "llama.cpp.moe_layer_opt_perf.v1");
  EXPECT_EQ(json["n_expert"], 3);
  EXPECT_EQ(json["n_expert_used"], 2);
  EXPECT_EQ(json["layers"][0].dump(),
            R"({"layer":1,"calls":17,"experts":[[0,6],[1,5],[2,2]],"hot_experts":[],)"
            R"("cold_experts":[]})");
  EXPECT_EQ(json["layers"][1]["experts"].dump(), "[[0,1],[1,90],[2,4]]");
}

ExportOptions Budget(uint64_t bytes, HotWeighting weighting) {
  ExportOptions options;
  options.budget = bytes;
  options.weighting = weighting;
  options.expert_bytes = {{1, 100}, {4, 100}};
  return options;
}

std::string HotOf(const Json& json) {
  return json["layers"][0]["hot_experts"].dump() + json["layers"][1]["hot_experts"].dump();
}

TEST(Export, AFlatBudgetIsEqualForEveryLayer) {
  const Json json = ExportedJson("hot-cache", SmallScores(), Budget(399, HotWeighting::kFlat));
  EXPECT_EQ(HotOf(json), "[[0,6]][[1,90]]");
  EXPECT_EQ(json["layers"][0]["cold_experts"].dump(), "[[1,5],[2,2]]");
}

TEST(Export, ABudgetByMassGoesToTheBestExpertsOfAllLayers) {
  EXPECT_EQ(HotOf(ExportedJson("hot-cache", SmallScores(), Budget(399, HotWeighting::kMass))),
            "[[0,6],[1,5]][[1,90]]");
}

TEST(Export, SkipsAnExpertThatDoesNotFit) {
  ExportOptions options = Budget(100, HotWeighting::kMass);
  options.expert_bytes[4] = 101;
  EXPECT_EQ(HotOf(ExportedJson("hot-cache", SmallScores(), options)), "[[0,6]][]");
}

TEST(Export, AHotCacheWithABudgetHasTheSameCounts) {
  const std::string text = Exported("hot-cache", SmallScores(), Budget(300, HotWeighting::kMass));
  EXPECT_EQ(SumOfScores(ImportedBytes(text)), SumOfScores(SmallScores()));
}

TEST(Export, ABudgetWithoutRoomOrBytesIsRefused) {
  EXPECT_EQ(ExportError("hot-cache", SmallScores(), Budget(150, HotWeighting::kFlat)).message,
            "budget: expected room for an expert in a layer, found 150 B for 2 layers");
  ExportOptions options = Budget(150, HotWeighting::kFlat);
  options.expert_bytes.erase(4);
  const Error error = ExportError("hot-cache", SmallScores(), options);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_EQ(error.message, "budget: expected the bytes of an expert of layer 4, found none");
}

TEST(Export, CountsForSglangHaveARowForEveryBlock) {
  EXPECT_EQ(ExportedJson("sglang", SmallScores()).dump(),
            R"({"logical_count":[[0,0,0],[6,5,2],[0,0,0],[0,0,0],[1,90,4]]})");
}

TEST(Export, RefusesATableOfLayersOfDifferentSizes) {
  ExpertScores scores = SmallScores();
  scores.layers[1].expert_count = 2;
  for (SessionScores& session : scores.sessions) session.scores.pop_back();
  const Error error = ExportError("sglang", scores);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_EQ(error.message,
            "layer 4: experts: expected the 3 of the first layer, because the format is one table, "
            "found 2");
}

Plan SmallPlan() {
  Plan plan;
  plan.layers = {{1, 3}, {4, 3}};
  plan.groups.resize(2);
  plan.groups[0].owned = {{1, {0, 2}}, {4, {1, 2}}};
  plan.groups[1].owned = {{1, {1}}, {4, {0}}};
  plan.groups[1].fill = {{1, {0}}, {4, {1}}};
  return plan;
}

TEST(Export, APlacementHasTheGroupsOfAPlanAsRanks) {
  const Plan plan = SmallPlan();
  ExportOptions options;
  options.plan = &plan;
  EXPECT_EQ(ExportedJson("sglang-placement", SmallScores(), options).dump(),
            R"({"physical_to_logical_map":[[0,1,2,0],[0,2,0,1],[0,1,2,0],[0,1,2,0],[1,2,0,1]]})");
}

TEST(Export, APlacementNeedsEqualGroupsOfAllExperts) {
  Plan plan = SmallPlan();
  ExportOptions options;
  options.plan = &plan;
  options.plan_file = "p.json";
  plan.groups[1].fill.erase(4);
  EXPECT_EQ(
      ExportError("sglang-placement", SmallScores(), options).message,
      "p.json: group 1: layer 4: expected the 2 experts of group 0, because all ranks have as "
      "many slots, found 1");
  plan = SmallPlan();
  plan.groups[0].owned[4] = {1};
  plan.groups[1].fill.erase(4);
  const Error missing = ExportError("sglang-placement", SmallScores(), options);
  EXPECT_EQ(missing.message,
            "p.json: layer 4: expert 2: expected in a group, because SGLang reaches every expert, "
            "found in none");
  EXPECT_EQ(missing.hint,
            "plan again with a larger --eligible or another --partition than same; `moepack plan` "
            "warns of experts on no node");
  plan = SmallPlan();
  plan.layers.erase(4);
  EXPECT_EQ(ExportError("sglang-placement", SmallScores(), options).message,
            "p.json: layer 4: expected 3 experts, found 0");
}

}  // namespace
}  // namespace moepack
