#include "manifest/write/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fixtures/memory_temp.h"
#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"
#include "manifest/document/describe_model.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kGroup1 = "groups/001/experts.safetensors";

class JoinTest : public testing::Test {
 protected:
  void Write(const std::string& name, const WriteOptions& options = tiny::Only(),
             const fs::path& source = tiny::kSource) {
    const auto report = tiny::Write(dir_ / name, options, source);
    ASSERT_TRUE(report) << report.error().message;
  }
  // The three machines of most tests: what they write is a whole distribution.
  void WriteThree() {
    Write("a", tiny::Only({"trunk", "group:0"}));
    Write("b", tiny::Only({"group:1", "assets"}));
    Write("c", tiny::Only({"group:2", "overlay"}));
  }
  Result<JoinReport> Join(std::vector<std::string> names, const std::string& out = "out",
                          const JoinOptions& options = {}) {
    for (std::string& name : names) name = (dir_ / name).string();
    return JoinDistributions(names, (dir_ / out).string(), options);
  }
  // The error of a join that must leave everything as it was.
  Error Refusal(const std::vector<std::string>& names, const std::string& out = "out",
                const JoinOptions& options = {}) {
    const auto before = tiny::Tree(dir_.path());
    const auto report = Join(names, out, options);
    EXPECT_FALSE(report);
    EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
    return report ? Error{Code::kIo, ""} : report.error();
  }
  // Makes the manifest of `name` say `to` for the first `from`.
  void Rewrite(const std::string& name, const std::string& from, const std::string& to) {
    const fs::path path = dir_ / name / kManifestFile;
    std::string text = fixtures::ReadFile(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    fixtures::WriteFile(path, text.replace(at, from.size(), to));
  }
  // Changes the first digit of the first `field` from `start` on.
  void ChangeDigest(const std::string& name, const std::string& start, const std::string& field) {
    const fs::path path = dir_ / name / kManifestFile;
    std::string text = fixtures::ReadFile(path);
    const std::string key = "\"" + field + "\": \"";
    const size_t at = text.find(key, text.find(start));
    ASSERT_NE(at, std::string::npos) << field;
    char& digit = text[at + key.size()];
    digit = digit == '0' ? '1' : '0';
    fixtures::WriteFile(path, text);
  }
  const fixtures::MemoryTemp in_memory_;
  fixtures::TempDir dir_;
};

TEST_F(JoinTest, PartsJoinToTheFilesOfOneRunInEveryOrder) {
  WriteThree();
  Write("whole");
  const auto whole = tiny::Tree(dir_ / "whole");
  std::vector<std::string> names = {"a", "b", "c"};
  do {
    const auto report = Join(names);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(tiny::Tree(dir_ / "out") == whole) << names[0] << names[1] << names[2];
    EXPECT_THAT(report->absent, IsEmpty());
    fs::remove_all(dir_ / "out");
  } while (std::next_permutation(names.begin(), names.end()));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

TEST_F(JoinTest, EveryKindOfLinkGivesTheSameFilesAndSaysHow) {
  WriteThree();
  Write("whole");
  for (const LinkKind kind : {LinkKind::kAuto, LinkKind::kHardlink, LinkKind::kCopy}) {
    JoinOptions options;
    options.link = kind;
    const auto report = Join({"a", "b", "c"}, "out", options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
    const bool linked = fs::equivalent(dir_ / "out" / kGroup1, dir_ / "b" / kGroup1);
    EXPECT_EQ(linked, kind != LinkKind::kCopy);
    EXPECT_FALSE(fs::equivalent(dir_ / "out/assets/config.json", dir_ / "b/assets/config.json"))
        << "people edit it";
    for (const JoinReport::File& file : report->files) {
      const bool asset = file.name.starts_with("assets/");
      const char* how = file.from.empty() ? "" : asset || !linked ? "copy" : "hardlink";
      EXPECT_EQ(file.link, how) << file.name;
    }
    fs::remove_all(dir_ / "out");
  }
}

TEST_F(JoinTest, ADryRunWritesNothingAndPredictsEveryFile) {
  WriteThree();
  JoinOptions options;
  options.dry_run = true;
  const auto before = tiny::Tree(dir_.path());
  const auto dry = Join({"a", "b", "c"}, "out", options);
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
  ASSERT_TRUE(Join({"a", "b", "c"}));
  EXPECT_EQ(dry->files.size(), tiny::Names(dir_ / "out").size());
  uint64_t total = 0;
  for (const JoinReport::File& file : dry->files) {
    EXPECT_EQ(fs::file_size(dir_ / "out" / file.name), file.bytes) << file.name;
    total += file.bytes;
  }
  EXPECT_EQ(dry->total_bytes(), total);
}

TEST_F(JoinTest, WhatIsAbsentIsNamedAndMayBeJoinedOrAddedLater) {
  Write("whole");
  Write("a", tiny::Only({"group:0"}));
  Write("b", tiny::Only({"group:2"}));
  Write("both", tiny::Only({"group:0", "group:2"}));
  const auto some = Join({"b", "a"}, "some");
  ASSERT_TRUE(some) << some.error().message;
  EXPECT_FALSE(some->manifest.complete);
  EXPECT_THAT(some->absent, ElementsAre("trunk", "group:1", "overlay", "assets"));
  EXPECT_TRUE(tiny::Tree(dir_ / "some") == tiny::Tree(dir_ / "both"));
  Write("rest", tiny::Only(some->absent));
  ASSERT_TRUE(Join({"rest", "some"}));
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
  Write("some", tiny::Only(some->absent));
  EXPECT_TRUE(tiny::Tree(dir_ / "some") == tiny::Tree(dir_ / "whole"));
}

TEST_F(JoinTest, APartThatSeveralHoldIsTakenOnce) {
  WriteThree();
  Write("whole");
  Write("more", tiny::Only({"trunk", "group:1", "assets"}));
  ASSERT_TRUE(Join({"a", "more", "b", "c", "a"}));
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
}

TEST_F(JoinTest, APartThatTwoHoldWithOtherBytesIsRefused) {
  WriteThree();
  Write("d", tiny::Only({"group:1"}));
  ChangeDigest("d", "\"bundles\"", "sha256");
  const Error error = Refusal({"a", "b", "c", "d"});
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr((dir_ / "d/distribution.json").string() +
                                       ": group 1: file \"" + kGroup1 + "\": sha256: expected \""));
  EXPECT_THAT(error.hint, HasSubstr("expected as in " + (dir_ / "b").string()));
}

TEST_F(JoinTest, APartThatTwoHoldWithOtherTensorsOrFilesIsRefused) {
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

TEST_F(JoinTest, OtherAssetsAreRefused) {
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

TEST_F(JoinTest, APartOfAnotherPlanIsRefusedByWhatDiffers) {
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

TEST_F(JoinTest, APartOfAnotherFormatOrRecipeIsRefused) {
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

TEST_F(JoinTest, APartOfAnotherSourceIsRefused) {
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

TEST_F(JoinTest, OtherWeightsAreRefusedWhereTheirDigestsAreKnown) {
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

// The digests of the source are in the result when one run had them, as are the words of its
// command line; the time is the latest.
TEST_F(JoinTest, WhatOnlySomeRunsRecordIsAsInOneRunWithAllOfIt) {
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

TEST_F(JoinTest, AnotherVersionOfMoepackIsRefused) {
  WriteThree();
  const std::string version = ToolVersion();
  Rewrite("b", "\"version\": \"" + version, "\"version\": \"0.0.9");
  EXPECT_THAT(Refusal({"a", "b"}).message,
              HasSubstr("tool.version: expected \"" + version + "\", found \"0.0.9\""));
}

TEST_F(JoinTest, FieldsThatThisVersionDoesNotKnowAreKeptAndMustAgree) {
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

TEST_F(JoinTest, ADamagedPartIsNotJoined) {
  WriteThree();
  for (const LinkKind kind : {LinkKind::kHardlink, LinkKind::kCopy}) {
    JoinOptions options;
    options.link = kind;
    for (const std::string& file :
         {std::string("b/") + kGroup1, std::string("b/assets/config.json")}) {
      const std::string whole = fixtures::ReadFile(dir_ / file);
      std::string bytes = whole;
      bytes.back() = static_cast<char>(bytes.back() ^ 1);
      fixtures::WriteFile(dir_ / file, bytes);
      const Error error = Refusal({"a", "b", "c"}, "out", options);
      EXPECT_EQ(error.code, Code::kMismatch);
      EXPECT_THAT(error.message, HasSubstr((dir_ / file).string() + ": sha256: expected "));
      EXPECT_THAT(error.hint, HasSubstr("moepack verify " + (dir_ / "b").string()));
      fs::resize_file(dir_ / file, 10);
      EXPECT_THAT(Refusal({"a", "b", "c"}, "out", options).message,
                  HasSubstr((dir_ / file).string() + ": file size: expected "));
      fs::remove(dir_ / file);
      EXPECT_EQ(Refusal({"a", "b", "c"}, "out", options).code, Code::kNotFound);
      fixtures::WriteFile(dir_ / file, whole);
    }
  }
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
}

TEST_F(JoinTest, AFileThatLeadsOutOfItsInputIsRefused) {
  WriteThree();
  fs::rename(dir_ / "b" / kGroup1, dir_ / "secret");
  fs::create_symlink(dir_ / "secret", dir_ / "b" / kGroup1);
  const auto refused = Join({"a", "b", "c"});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kCorrupt);
  EXPECT_THAT(refused.error().message, HasSubstr("found a link to "));
}

TEST_F(JoinTest, TwoPartsOfOneNameAreRefused) {
  Write("a", tiny::Only({"group:0"}));
  Write("b", tiny::Only({"group:1"}));
  Rewrite("b", kGroup1, "groups/000/experts.safetensors");
  EXPECT_THAT(Refusal({"a", "b"}).message,
              HasSubstr("file \"groups/000/experts.safetensors\": expected one part of this name"));
}

TEST_F(JoinTest, FewerThanTwoInputsAreRefused) {
  WriteThree();
  EXPECT_THAT(Refusal({}).message, HasSubstr("expected two or more, found 0"));
  const Error one = Refusal({"a"});
  EXPECT_EQ(one.code, Code::kInvalidArgument);
  EXPECT_EQ(one.message, "distributions to join: expected two or more, found 1");
}

TEST_F(JoinTest, AnOutputThatExistsIsReplacedOnlyIfForced) {
  WriteThree();
  Write("whole");
  Write("out", tiny::Only({"assets"}));
  EXPECT_THAT(Refusal({"a", "b", "c"}).message, HasSubstr("out already exists"));
  JoinOptions force;
  force.force = true;
  ASSERT_TRUE(Join({"a", "b", "c"}, "out", force));
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "whole"));
  fixtures::WriteFile(dir_ / "out/notes.txt", "mine");
  EXPECT_THAT(Refusal({"a", "b", "c"}, "out", force).message, HasSubstr("holds \"notes.txt\""));
}

TEST_F(JoinTest, TheOutputIsNeverAnInputInsideOneOrAroundOne) {
  WriteThree();
  JoinOptions force;
  force.force = true;
  for (const char* out : {"a", "c", "b/groups/new", "c/x", "."}) {
    const Error error = Refusal({"a", "b", "c"}, out, force);
    EXPECT_EQ(error.code, Code::kInvalidArgument) << out;
    EXPECT_THAT(error.message, HasSubstr(" the input")) << out;
  }
}

TEST_F(JoinTest, AJoinThatIsKilledBetweenSystemCallsLeavesNothingThatLooksFinished) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << "no seccomp filters here";
  WriteThree();
  Write("whole");
  const auto inputs = tiny::Tree(dir_.path());
  const auto expected = tiny::Tree(dir_ / "whole");
  for (const LinkKind kind : {LinkKind::kHardlink, LinkKind::kCopy}) {
    JoinOptions options;
    options.link = kind;
    const auto join = [&] { return Join({"a", "b", "c"}, "out", options).has_value(); };
    for (int calls = 0;; calls += 2) {
      const bool killed =
          fixtures::IsKilledAtCall(dir_.path(), calls, [&] { return join() ? 0 : 1; });
      if (fs::exists(dir_ / "out")) {
        EXPECT_TRUE(tiny::Tree(dir_ / "out") == expected) << calls;
        fs::remove_all(dir_ / "out");
      }
      EXPECT_TRUE(join()) << calls;
      EXPECT_TRUE(tiny::Tree(dir_ / "out") == expected) << calls;
      EXPECT_FALSE(fs::exists(dir_ / "out.partial")) << calls;
      fs::remove_all(dir_ / "out");
      if (!killed) break;
    }
  }
  EXPECT_TRUE(tiny::Tree(dir_.path()) == inputs) << "inputs are only read";
}

}  // namespace
}  // namespace moepack::manifest
