// What must agree before parts are joined, and the result for fields that may differ.
#include "manifest/write/join_parts.h"

#include <gmock/gmock.h>

#include "libshard/base/tool_version.h"
#include "tests/manifest/write/join_sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

using JoinPartsTest = JoinTest;

TEST_F(JoinPartsTest, APartWithDifferentBytesInTwoInputsIsRefused) {
  WriteThree();
  Write("d", tiny::Only({"group:1"}));
  ChangeDigest("d", "\"bundles\"", "sha256");
  const Error error = Refusal({"a", "b", "c", "d"});
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr((dir_ / "d/distribution.json").string() +
                                       ": group 1: file \"" + kGroup1 + "\": sha256: expected \""));
  EXPECT_THAT(error.hint, HasSubstr("expected as in " + (dir_ / "b").string()));
}

TEST_F(JoinPartsTest, APartWithDifferentTensorsOrFilesInTwoInputsIsRefused) {
  WriteThree();
  Write("d", tiny::Only({"group:1"}));
  ChangeDigest("d", "\"bundles\"", "xxh3");
  EXPECT_THAT(Refusal({"b", "d"}).message, HasSubstr("_proj.weight\".xxh3: expected \""));
  Write("e", tiny::Only({"group:1"}));
  Rewrite("e", "\"shape\": [256, 256]", "\"shape\": [65536]");
  EXPECT_THAT(Refusal({"b", "e"}).message, HasSubstr(": tensor \"model.layers.0.mlp.experts.6."));
  WriteOptions cut = tiny::Only({"group:1"});
  cut.slice.max_part_size = 1u << 20;
  Write("f", cut);
  EXPECT_THAT(Refusal({"b", "f"}).message, HasSubstr(": group 1: files: expected 1, found "));
}

TEST_F(JoinPartsTest, OtherAssetsAreRefused) {
  WriteThree();
  const fixtures::TempDir source;
  fs::copy(tiny::kSource, source / "tiny");
  const fs::path file = source / "tiny/tokenizer.json";
  fixtures::WriteFile(file, fixtures::ReadFile(file) + "\n");
  Write("d", tiny::Only({"assets"}), source / "tiny");
  const Error error = Refusal({"b", "d"});
  EXPECT_THAT(error.message, HasSubstr("distribution.json: assets["));
  EXPECT_THAT(error.hint, HasSubstr("the files beside the source are not the same"));
}

TEST_F(JoinPartsTest, NamesTheDifferenceOfAPartOfAnotherPlan) {
  WriteThree();
  moepack::PlanOptions other = tiny::PlanOptions();
  other.groups = 2;
  const MoeModel model = tiny::Model();
  WriteOptions options = tiny::Only();
  options.slice.parts = *ParseParts({"group:1"}, 2);
  ASSERT_TRUE(WriteDistribution(model, tiny::Plan(model, other), (dir_ / "d").string(), options));
  const Error error = Refusal({"a", "d"});
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr((dir_ / "d/distribution.json").string() +
                                       ": partition.groups[0].experts.*: expected \"0-5\", "
                                       "found \"0-7\""));
  EXPECT_THAT(error.hint, HasSubstr("expected as in " + (dir_ / "a").string()));
}

TEST_F(JoinPartsTest, APartOfAnotherFormatOrRecipeIsRefused) {
  WriteThree();
  const auto write = [&](const char* name, const char* recipe) {
    WriteOptions options = tiny::Only({"group:2"});
    options.gguf.emplace();
    options.gguf->recipe.recipe = recipe;
    Write(name, options);
  };
  write("q8", "Q8_0");
  write("q4", "Q4_0");
  EXPECT_THAT(Refusal({"a", "q8"}).message,
              HasSubstr("format of the bundles: expected \"safetensors\", found \"gguf\""));
  EXPECT_THAT(Refusal({"q8", "q4"}).message,
              HasSubstr("tool.recipe: expected \"Q8_0\", found \"Q4_0\""));
}

TEST_F(JoinPartsTest, APartOfAnotherSourceIsRefused) {
  WriteThree();
  WriteOptions revision = tiny::Only({"group:2"});
  revision.revision = "v2";
  Write("d", revision);
  EXPECT_THAT(Refusal({"a", "d"}).message,
              HasSubstr("model.revision: expected \"\", found \"v2\""));
  WriteOptions name = tiny::Only({"group:2"});
  name.model_id = "other/model";
  Write("e", name);
  EXPECT_THAT(Refusal({"a", "e"}).message,
              HasSubstr("model.id: expected \"example/tiny\", found \"other/model\""));
  ChangeDigest("b", "\"source\"", "header_sha256");
  EXPECT_THAT(Refusal({"a", "b"}).message, HasSubstr(": model.source[0].header_sha256: expected "));
  ChangeDigest("c", "\"versions\"", "model");
  EXPECT_THAT(Refusal({"a", "c"}).message, HasSubstr(": versions.model: expected "));
}

TEST_F(JoinPartsTest, OtherWeightsAreRefusedIfTheirDigestsAreKnown) {
  const fixtures::TempDir source;
  fs::copy(tiny::kSource, source / "tiny");
  const fs::path file = source / "tiny/model-00001-of-00003.safetensors";
  std::string bytes = fixtures::ReadFile(file);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fixtures::WriteFile(file, bytes);
  WriteOptions options = tiny::Only({"trunk"});
  options.hash_source = true;
  Write("a", options);
  options.slice.parts = *ParseParts({"group:1"}, 3);
  Write("b", options, source / "tiny");
  const Error error = Refusal({"a", "b"});
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("b/distribution.json: source file \"model-00001-of-"));
  EXPECT_THAT(error.hint, HasSubstr("made from other weights"));
}

TEST_F(JoinPartsTest, KeepsWhatOnlySomeRunsRecorded) {
  WriteOptions plain = tiny::Only({"trunk", "group:0", "group:1", "overlay"});
  WriteOptions hashed = tiny::Only({"group:2", "assets"});
  hashed.hash_source = true;
  hashed.command = {"shard-experts", "--groups", "3", "--hash-source"};
  Write("a", plain);
  Write("b", hashed);
  WriteOptions whole = tiny::Only();
  whole.hash_source = true;
  whole.command = hashed.command;
  Write("whole", whole);
  ASSERT_TRUE(Join({"a", "b"}));
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
  Rewrite("a", "\"--groups\"", "\"--nodes\"");
  EXPECT_THAT(Refusal({"a", "b"}, "other").message,
              HasSubstr("tool.command: expected \"shard-experts --nodes 3\", found "
                        "\"shard-experts --groups 3 --hash-source\""));
}

TEST_F(JoinPartsTest, AnotherVersionOfMoepackIsRefused) {
  WriteThree();
  const std::string version = ToolVersion();
  Rewrite("b", "\"version\": \"" + version, "\"version\": \"0.0.9");
  EXPECT_THAT(Refusal({"a", "b"}).message,
              HasSubstr("tool.version: expected \"" + version + "\", found \"0.0.9\""));
}

TEST_F(JoinPartsTest, UnknownFieldsAreKeptAndMustAgree) {
  WriteThree();
  Write("whole");
  for (const char* name : {"a", "b", "c", "whole"}) {
    Rewrite(name, "\"bundles\": [", "\"later\": {\"x\": [1, 2]},\n  \"bundles\": [");
  }
  Rewrite("b", "\"role\": \"group\",", "\"role\": \"group\",\n      \"made_by\": \"b\",");
  ASSERT_TRUE(Join({"c", "a", "b"}));
  const std::string text = fixtures::ReadFile(dir_ / "out" / kManifestFile);
  EXPECT_THAT(text, HasSubstr("\"later\": "));
  EXPECT_THAT(text, HasSubstr("\"made_by\": \"b\""));
  Rewrite("b", "{\"x\": [1, 2]}", "{\"x\": [1, 3]}");
  EXPECT_THAT(Refusal({"a", "b"}, "other").message, HasSubstr("later.x[1]: expected 2, found 3"));
}

TEST_F(JoinPartsTest, TwoPartsOfOneNameAreRefused) {
  Write("a", tiny::Only({"group:0"}));
  Write("b", tiny::Only({"group:1"}));
  Rewrite("b", kGroup1, "groups/000/experts.safetensors");
  EXPECT_THAT(Refusal({"a", "b"}).message,
              HasSubstr("file \"groups/000/experts.safetensors\": expected one part of this name"));
}

}  // namespace
}  // namespace moepack::manifest
