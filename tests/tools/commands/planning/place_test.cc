#include <gmock/gmock.h>

#include "tests/runtime-shim/placed_node.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::json;

class PlaceCommand : public ::testing::Test {
 protected:
  PlaceCommand() {
    const ToolRun run = workspace_.Moepack("build fixtures/tiny-moe --groups 3 -o out");
    EXPECT_EQ(run.status, 0) << run.err;
  }
  void AddTable() {
    runtime::AddPlacement((workspace_ / "out").string(), runtime::ThreeTokenTable());
  }
  ToolRun Place(const std::string& options) { return workspace_.Moepack("place out " + options); }
  Workspace workspace_;
};

TEST_F(PlaceCommand, NamesTheGroupAndHowSureItIs) {
  AddTable();
  const ToolRun run = Place("--tokens 102,7 101,102");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out,
            "session   group  second       lead  sure  tokens    known  by\n"
            "tokens 1      2       0  3.00 nats  yes        2   50.0 %  table\n"
            "tokens 2      1       2  0.00 nats  no         2  100.0 %  table\n");
  EXPECT_THAT(run.err, HasSubstr("the table is not sure of 1 of 2 sessions: --fallback race"));
}

TEST_F(PlaceCommand, ReadsTextsLikeProfile) {
  AddTable();
  WriteAll(workspace_ / "a.jsonl", "{\"text\": \"int main\", \"session\": \"first\"}\n[101]\n");
  const Json json = workspace_.Json("place out --text a.jsonl --json");
  EXPECT_EQ(json["source"], "out");
  ASSERT_EQ(json["sessions"].size(), 2u);
  EXPECT_EQ(json["sessions"][0]["session"], "first");
  EXPECT_EQ(json["sessions"][1]["group"], 1);
  EXPECT_EQ(json["sessions"][1]["rule"], "table");
  EXPECT_EQ(json["sessions"][1]["sure"], true);
  EXPECT_EQ(json["sessions"][1]["margin"], 3.0);
  EXPECT_EQ(json["sessions"][1]["scores"], Json({-1.0, 2.0, -1.0}));
  const Json prompt = workspace_.Json("place out --prompt 'int main' --json");
  EXPECT_EQ(prompt["sessions"][0]["scores"], json["sessions"][0]["scores"]);
}

TEST_F(PlaceCommand, NeedsNeitherWeightsNorGroupsForTokens) {
  AddTable();
  for (const char* part : {"trunk", "groups", "assets"})
    std::filesystem::remove_all(workspace_ / "out" / part);
  EXPECT_EQ(Place("--tokens 102").status, 0);
  const ToolRun text = Place("--prompt hello");
  EXPECT_EQ(text.status, 5);
  EXPECT_THAT(text.err, HasSubstr("expected the files of one, found none"));
}

TEST_F(PlaceCommand, AsksTheModelIfTheTableIsNotSure) {
  AddTable();
  const std::string tokens = "--tokens 102,102,9,10,11,12 101,102,9,10,11,12 --json";
  const Json race = workspace_.Json("place out --fallback race " + tokens);
  EXPECT_EQ(race["sessions"][0]["rule"], "table");
  EXPECT_EQ(race["sessions"][1]["rule"], "race");
  EXPECT_EQ(race["sessions"][1]["tokens"], 4);
  EXPECT_TRUE(race["sessions"][1]["sure"].is_null());
  const Json probe = workspace_.Json("place out --fallback probe " + tokens);
  EXPECT_EQ(probe["sessions"][1]["rule"], "probe");
  EXPECT_EQ(probe["sessions"][1]["scores"].size(), 3u);
  const Json all = workspace_.Json("place out --rule race " + tokens);
  EXPECT_EQ(all["sessions"][0]["rule"], "race");
  EXPECT_EQ(all["sessions"][1], race["sessions"][1]);
}

// The lead of a few known tokens says nothing about a text of unknown ones.
TEST_F(PlaceCommand, AsksTheModelAboutUnknownTexts) {
  AddTable();
  const std::string tokens = "--tokens 7,8,9,10 102,8,9,10 --json";
  const Json table = workspace_.Json("place out " + tokens);
  EXPECT_EQ(table["sessions"][0]["margin"], 0.0);
  EXPECT_EQ(table["sessions"][0]["sure"], false);
  EXPECT_EQ(table["sessions"][1]["margin"], 3.0);
  EXPECT_EQ(table["sessions"][1]["sure"], false);
  const Json race = workspace_.Json("place out --fallback race " + tokens);
  EXPECT_EQ(race["sessions"][0]["rule"], "race");
  EXPECT_EQ(race["sessions"][1]["rule"], "race");
}

TEST_F(PlaceCommand, AsksTheModelWithoutATableOnlyOnRequest) {
  const ToolRun none = Place("--tokens 101,102,103");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("out: placement: expected a table, found none"));
  const ToolRun race = Place("--tokens 101,102,103 --fallback race");
  EXPECT_EQ(race.status, 0) << race.err;
  EXPECT_THAT(race.err, HasSubstr("found none; asking the race"));
  EXPECT_THAT(race.out, HasSubstr("race\n"));
}

TEST_F(PlaceCommand, RefusesInvalidOptions) {
  AddTable();
  const auto refusal = [&](const std::string& options) {
    const ToolRun run = Place(options);
    EXPECT_EQ(run.status, 2) << options;
    return run.err;
  };
  EXPECT_THAT(refusal(""), HasSubstr("--text, --tokens or --prompt is required"));
  EXPECT_THAT(refusal("--prompt ''"), HasSubstr("--prompt: expected a value"));
  EXPECT_THAT(refusal("--prompt x --tokens 1"),
              HasSubstr("--tokens and --prompt cannot be used together"));
  EXPECT_THAT(refusal("--prompt x --rule hash"),
              HasSubstr("expected one of table, probe, race, found \"hash\""));
  EXPECT_THAT(refusal("--prompt x --rule race --fallback probe"),
              HasSubstr("--fallback has no effect: --rule race always answers"));
  EXPECT_THAT(refusal("--prompt x --threads 1"),
              HasSubstr("--threads has no effect: the table runs no model"));
  EXPECT_THAT(refusal("--tokens 5 --rule race"),
              HasSubstr("session \"tokens 1\": race: expected at least 2 tokens, found 1"));
}

TEST_F(PlaceCommand, AcceptsOnlyDistributions) {
  const ToolRun model = workspace_.Moepack("place fixtures/tiny-moe --tokens 5");
  EXPECT_EQ(model.status, 2);
  EXPECT_THAT(model.err, HasSubstr("expected a distribution, found no distribution.json"));
  const ToolRun race = workspace_.Moepack("place fixtures/tiny-moe --tokens 5,6 --rule race");
  EXPECT_EQ(race.status, 2);
  EXPECT_THAT(race.err, HasSubstr("expected a distribution, found a model without groups"));
}

TEST_F(PlaceCommand, EvalComparesTheTableWithTheBestChoice) {
  AddTable();
  WriteAll(workspace_ / "text.txt", "The router of a layer picks two of sixteen experts.\n");
  const std::string eval = "eval out --text text.txt --generate 0";
  const Json json = workspace_.Json(eval + " --json");
  ASSERT_EQ(json["placement"].size(), 4u);
  EXPECT_EQ(json["placement"][0]["rule"], "table");
  EXPECT_EQ(json["placement"][0]["sessions"], 1);
  EXPECT_GE(json["placement"][0]["regret"], 0);
  EXPECT_EQ(json["placement"][0]["sure"], 0);
  EXPECT_TRUE(json["placement"][1]["sure"].is_null());
  EXPECT_EQ(json["sessions"][0]["placed"]["tokens"], 4);
  const ToolRun text = workspace_.Moepack(eval);
  EXPECT_THAT(text.out, HasSubstr("choice of the group  sessions  as lowest KLD  regret"));
  EXPECT_THAT(text.out, HasSubstr("\nany group"));
}

}  // namespace
}  // namespace moepack::cli
