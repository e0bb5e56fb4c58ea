// Rules for the options of all commands: none is ignored, and each has one name and one meaning.
#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class OptionRules : public testing::Test {
 protected:
  void Build(const std::string& options) {
    const ToolRun run =
        workspace_.Moepack("build fixtures/tiny-moe --groups 2 --no-verify " + options);
    EXPECT_EQ(run.status, 0) << run.err;
  }
  void ExpectRefused(const std::string& arguments, const std::string& option) {
    const std::string before = workspace_.Listing();
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, 2) << arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(option)) << arguments;
    EXPECT_EQ(run.out, "") << arguments;
    EXPECT_EQ(workspace_.Listing(), before) << arguments;
  }
  Workspace workspace_;
};

TEST_F(OptionRules, AnImportanceMatrixWithoutTypesIsRefused) {
  WriteAll(workspace_ / "m.gguf", "any");
  for (const char* command : {"build fixtures/tiny-moe --groups 2 -o out",
                              "build fixtures/tiny-moe --groups 2 --format gguf -o out",
                              "shard-experts fixtures/tiny-moe --groups 2 -o out",
                              "quantize fixtures/tiny-moe -o out.gguf"}) {
    ExpectRefused(std::string(command) + " --imatrix m.gguf",
                  "--imatrix has no effect: nothing is quantized");
    ExpectRefused(std::string(command) + " --allow-requantize", "--allow-requantize has no effect");
  }
}

TEST_F(OptionRules, ATypeForAMissingOverlayIsRefused) {
  ExpectRefused("build fixtures/tiny-moe --groups 2 --recipe Q8_0 --overlay-type q4_K -o out",
                "--overlay-type has no effect: the plan has no overlay");
}

TEST_F(OptionRules, ConverterOptionsAreRefusedIfNothingIsConverted) {
  EXPECT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe --recipe Q8_0 -o a.gguf").status, 0);
  ExpectRefused("quantize a.gguf --pre qwen2 -o b.gguf",
                "--pre has no effect: a.gguf is GGUF already");
  ExpectRefused("build a.gguf --groups 2 --no-mtp -o out",
                "--no-mtp has no effect: a.gguf is GGUF");
  ExpectRefused("build fixtures/tiny-moe --groups 2 --pre qwen2 --format safetensors -o out",
                "--format safetensors cannot be used with");
  Build("--recipe Q8_0 -o out");
  ExpectRefused("quantize out --recipe Q4_0 --allow-requantize --pre qwen2 -o out-4", "--pre");
  ExpectRefused("quantize out --recipe Q4_0 --allow-requantize --config c.json -o out-4",
                "--config");
}

// A dry run shows what the run would do, including its refusals.
TEST_F(OptionRules, ADryRunRefusesWhatItsRunWouldRefuse) {
  WriteAll(workspace_ / "foreign/distribution.json", "{}");
  WriteAll(workspace_ / "foreign/mine", "text");
  Build("--recipe Q8_0 --allow-requantize -o out");
  for (const std::string out : {"fixtures/tiny-moe", "fixtures/tiny-moe/..", ".", "/", "foreign"}) {
    for (const std::string command :
         {"build fixtures/tiny-moe --groups 3", "shard-experts fixtures/tiny-moe --groups 3"}) {
      ExpectRefused(command + " --force --dry-run -o " + out, "choose another output");
    }
  }
  for (const std::string out : {"foreign", "out", "out/node"}) {
    ExpectRefused("assemble out --group 1 --force --dry-run -o " + out, "choose another output");
    ExpectRefused("quantize out --recipe Q4_0 --allow-requantize --force --dry-run -o " + out,
                  "choose another output");
  }
  EXPECT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out --dry-run").status, 0);
}

TEST_F(OptionRules, ARegularExpressionIsLimitedInLengthDepthAndSteps) {
  const std::string list = "list-tensors fixtures/tiny-moe --regex ";
  ExpectRefused(list + std::string(60'000, 'a'),
                "--regex: regular expression: expected 1 to 4096 bytes, found 60000");
  const auto nested = [&](size_t depth) {
    return list + "'" + std::string(depth, '(') + "a" + std::string(depth, ')') + "'";
  };
  EXPECT_EQ(workspace_.Moepack(nested(200)).status, 0);
  ExpectRefused(nested(1'500), "parentheses are too deeply nested");
  ExpectRefused(list + "'^(?:[a-z._0-9]+)+[!?]'", "match limit exceeded");
}

// Each would be written to distribution.json, or to the metadata of a file, as U+FFFD.
TEST_F(OptionRules, WordsThatAreNotUtf8AreRefusedBeforeAnythingIsWritten) {
  for (const std::string command : {"build fixtures/tiny-moe --groups 2 -o out",
                                    "shard-experts fixtures/tiny-moe --groups 2 -o out"}) {
    ExpectRefused(command + " --revision \"$(printf 'v\\377')\"", "--revision: expected UTF-8");
    ExpectRefused(command + " --model-id \"$(printf 'a/\\377')\"", "--model-id: expected UTF-8");
    ExpectRefused(command + " --dry-run --revision \"$(printf '\\377')\"", "--revision: expected");
  }
  ExpectRefused(
      "quantize fixtures/tiny-moe --recipe Q8_0 -o o.gguf --model-id \"$(printf '\\377')\"",
      "--model-id: expected UTF-8");
  ExpectRefused("profile fixtures/tiny-moe --tokens 1,2 --bucket \"$(printf '\\377')\"",
                "--bucket: expected UTF-8");
}

TEST_F(OptionRules, FilesWhoseRecordedNameIsNotUtf8AreRefused) {
  fs::copy(workspace_ / "fixtures/tiny-overlay.json", workspace_ / "o\xff.json");
  WriteAll(workspace_ / "g\xff.json", R"({"groups": [{"*": "0-7"}, {"*": "8-15"}]})");
  for (const std::string verb : {"build", "shard-experts"}) {
    const std::string command = verb + " fixtures/tiny-moe -o out ";
    ExpectRefused(command + "--groups 2 --overlay-file o\xff.json",
                  "--overlay-file: expected UTF-8, found \"o\\xff.json\"");
    ExpectRefused(command + "--partition explicit:g\xff.json", "--partition: expected UTF-8");
  }
  EXPECT_EQ(
      workspace_.Moepack("plan fixtures/tiny-moe --groups 2 --overlay-file o\xff.json").status, 0)
      << "a plan does not contain the names of its files";
}

TEST_F(OptionRules, TypeRulesThatAreNotUtf8AreRefused) {
  WriteAll(workspace_ / "rules", "# \xff\nffn_down_exps=q6_K\n");
  const ToolRun run = workspace_.Moepack(
      "build fixtures/tiny-moe --groups 2 --recipe Q8_0 --tensor-type-file rules -o out");
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("rules: expected UTF-8, found other bytes"));
}

TEST_F(OptionRules, OptionsForAgainstNeedASource) {
  Build("-o out");
  for (const char* option : {"--imatrix m", "--family f", "--config c", "--pre qwen2"})
    ExpectRefused(std::string("verify out ") + option, "--against");
}

TEST_F(OptionRules, GgufNodeOptionsAreRefusedForSafetensorsBundles) {
  Build("-o out");
  const std::string why = " has no effect: out has safetensors bundles\nhint: leave it out";
  for (const std::string option :
       {"--layout split", "--layout single", "--link auto", "--link copy", "--name mine",
        "--name node", "--max-part-size 1M", "--alignment 4096"}) {
    const std::string name = option.substr(0, option.find(' '));
    for (const char* dry : {"", " --dry-run"})
      ExpectRefused("assemble out --group 0 -o node " + option + dry, name + why);
  }
}

TEST_F(OptionRules, SplitSetOptionsAreRefusedForASingleFile) {
  Build("--recipe Q8_0 -o out");
  for (const std::string option : {"--link auto", "--link copy", "--max-part-size 1M"}) {
    ExpectRefused("assemble out --group 0 -o node --layout single " + option,
                  option.substr(0, option.find(' ')) +
                      " has no effect with --layout single\nhint: leave it out");
    EXPECT_EQ(
        workspace_.Moepack("assemble out --group 0 -o node --dry-run --layout split " + option)
            .status,
        0);
  }
}

TEST_F(OptionRules, FamilyAndConfigAreRefusedForGgufBundles) {
  Build("--recipe Q8_0 -o out");
  const std::string why = " has no effect: out has GGUF bundles";
  ExpectRefused("assemble out --group 0 -o node --family f.json", "--family" + why);
  for (const char* command :
       {"run out --tokens 1", "profile out --tokens 1", "eval out --tokens 1", "check out"}) {
    ExpectRefused(std::string(command) + " --family f.json", "--family" + why);
    ExpectRefused(std::string(command) + " --config c.json", "--config" + why);
  }
}

TEST_F(OptionRules, OptionsAboutPartsNeedADistribution) {
  for (const std::string option : {"--no-overlay", "--verify-files"})
    for (const char* command : {"run", "profile", "eval"})
      ExpectRefused(command + (" fixtures/tiny-moe --tokens 1 " + option),
                    option + " has no effect: fixtures/tiny-moe is not a distribution");
}

TEST_F(OptionRules, AMissingSourceIsNamedBeforeItsOptions) {
  const ToolRun run = workspace_.Moepack("run missing --tokens 1 --no-overlay");
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("missing"));
  EXPECT_THAT(run.err, Not(HasSubstr("has no effect")));
}

TEST_F(OptionRules, RaceTokensNeedGroups) {
  ExpectRefused("eval fixtures/tiny-moe --tokens 1,2 --race-tokens 4",
                "--race-tokens has no effect: fixtures/tiny-moe has no groups");
}

TEST_F(OptionRules, SamplingOptionsNeedATemperature) {
  for (const std::string option : {"--top-k 5", "--top-p 0.5", "--min-p 0.1", "--seed 7"}) {
    ExpectRefused("run fixtures/tiny-moe --tokens 1 -n 1 " + option,
                  option.substr(0, option.find(' ')) + " needs --temperature");
    EXPECT_EQ(workspace_.Moepack("run fixtures/tiny-moe --tokens 1 -n 1 --temperature 1 " + option)
                  .status,
              0);
  }
}

TEST_F(OptionRules, OnlyJsonGoesWithTheListOfDevices) {
  for (const std::string option : {"--group 1", "--executor cpu", "--device 0", "--tokens 1",
                                   "--compare cpu", "--context 9", "--no-verify"})
    ExpectRefused("run --list-devices " + option, option.substr(0, option.find(' ')));
  ExpectRefused("run fixtures/tiny-moe --list-devices", "--list-devices");
  EXPECT_EQ(workspace_.Moepack("run --list-devices --quiet").status, 0);
}

TEST_F(OptionRules, TheNameOfAConvertedModelIsRefusedForAGgufSource) {
  EXPECT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe --recipe Q8_0 -o a.gguf").status, 0);
  ExpectRefused("quantize a.gguf --model-id me/mine -o b.gguf",
                "--model-id has no effect: a.gguf is GGUF already");
}

TEST_F(OptionRules, TheRemainderIsChosenWithOnly) {
  ExpectRefused("shard-experts fixtures/tiny-moe --groups 2 --only trunk --keep-remainder -o out",
                "--only and --keep-remainder cannot be used together");
}

TEST_F(OptionRules, VerifyRefusesReadOptionsWithoutDigests) {
  Build("-o out");
  ExpectRefused("verify out --no-digests --cold",
                "--no-digests and --cold cannot be used together");
  ExpectRefused("verify out --no-digests --against fixtures/tiny-moe",
                "--against and --no-digests cannot be used together");
}

TEST_F(OptionRules, VerifyRefusesAnUnusedImportanceMatrixAndPreTokenizer) {
  Build("-o out");
  Build("--recipe Q8_0 -o out-8");
  const std::string against = " --against fixtures/tiny-moe ";
  ExpectRefused("verify out" + against + "--imatrix m.gguf",
                "--imatrix has no effect: the distribution has safetensors bundles");
  ExpectRefused("verify out" + against + "--pre qwen2",
                "--pre has no effect: the distribution has safetensors bundles");
  ExpectRefused("verify out-8" + against + "--imatrix m.gguf",
                "--imatrix has no effect: the distribution was made without one");
}

TEST_F(OptionRules, VerifyOfANodeRefusesOptionsForDistributions) {
  Build("-o out");
  EXPECT_EQ(workspace_.Moepack("assemble out --group 0 -o node").status, 0);
  const std::string digest = "sha256:" + std::string(64, '0');
  for (const std::string& option :
       {std::string("--group 0"), "--digest " + digest, std::string("--complete"),
        std::string("--against fixtures/tiny-moe")})
    ExpectRefused("verify node " + option,
                  option.substr(0, option.find(' ')) + " has no effect: node is a node");
  EXPECT_THAT(workspace_.Moepack("verify node --cold").out, HasSubstr("past the page cache"));
}

TEST_F(OptionRules, NodeSizesNeedTensorsWithSizes) {
  const std::string index = "model.safetensors.index.json";
  for (const std::string& file : {std::string("config.json"), index})
    WriteAll(workspace_ / ("names/" + file), ReadFile(workspace_ / ("fixtures/tiny-moe/" + file)));
  const std::string summary = "list-tensors names/" + index + " --summary";
  EXPECT_EQ(workspace_.Moepack(summary).status, 0);
  ExpectRefused(summary + " --groups 2", "--groups has no effect: names/");
  ExpectRefused(summary + " --recipe Q8_0", "--recipe has no effect: names/");
  EXPECT_EQ(workspace_.Moepack("list-tensors names/config.json --summary --groups 2").status, 0);
  ExpectRefused("list-tensors names/config.json --summary --config fixtures/tiny-moe/config.json",
                "--config has no effect: SRC is a config alone");
}

TEST_F(OptionRules, AnEmptyValueIsRefused) {
  Build("-o out");
  for (const std::string option :
       {"plan fixtures/tiny-moe --groups 2 --overlay-file", "overlay out -o new --version",
        "build fixtures/tiny-moe --groups 2 -o new --task", "verify out --resume",
        "verify out --overlay", "quantize fixtures/tiny-moe -o a.gguf --recipe",
        "list-tensors fixtures/tiny-moe --layer 1 --regex", "run fixtures/tiny-moe --prompt",
        "profile fixtures/tiny-moe --text fixtures/texts/manual.md --bucket"}) {
    const std::string name = option.substr(option.rfind(' ') + 1);
    ExpectRefused(option + " ''", name +
                                      ": expected a value, found an empty one\n"
                                      "hint: leave it out, or give it a value");
  }
  ExpectRefused("verify ''", "verify: DIST: expected a value, found an empty one");
  ExpectRefused("diff out ''", "diff: B: expected a value, found an empty one");
  ExpectRefused("profile fixtures/tiny-moe --text fixtures/texts/manual.md ''",
                "profile: --text: expected a value, found an empty one");
}

TEST_F(OptionRules, ARemovedOptionIsRefusedWithItsReplacement) {
  ExpectRefused("verify out --against fixtures/tiny-moe --no-mtp",
                "option --no-mtp has been removed\nhint: leave it out: verify reads in "
                "distribution.json whether");
}

TEST_F(OptionRules, ReportsAnUnknownOptionBeforeAMissingOne) {
  for (const std::string command :
       {"list-tensors", "plan", "shard-experts", "quantize", "build", "verify", "diff", "assemble",
        "run", "check", "profile", "eval"}) {
    const ToolRun run = workspace_.Moepack(command + " --nonsense 1");
    EXPECT_EQ(run.status, 2);
    EXPECT_THAT(run.err, StartsWith("error: " + command + ": unknown option \"--nonsense\"\n"));
  }
  EXPECT_THAT(workspace_.Moepack("assemble out --groups 1 -o n").err,
              StartsWith("error: assemble: unknown option \"--groups\"\n"
                         "hint: did you mean --group?\n"));
  EXPECT_THAT(workspace_.Moepack("plan --groups many --grups 3").err,
              HasSubstr("unknown option \"--grups\""));
}

TEST_F(OptionRules, RecipeAndQuantizeAreTheSameOption) {
  Build("--recipe Q4_K_M -o one");
  Build("--quantize Q4_K_M -o two");
  EXPECT_EQ(ReadFile(workspace_ / "one/distribution.json"),
            ReadFile(workspace_ / "two/distribution.json"));
  for (const char* option : {"--recipe", "--quantize"}) {
    const std::string name = std::string(option).substr(2) + ".gguf";
    EXPECT_EQ(
        workspace_.Moepack(std::string("quantize fixtures/tiny-moe ") + option + " Q8_0 -o " + name)
            .status,
        0);
  }
  for (const char* command : {"build", "shard-experts", "quantize"})
    EXPECT_THAT(workspace_.Moepack(std::string("help ") + command).out,
                HasSubstr("  --recipe, --quantize RECIPE\n"));
}

TEST_F(OptionRules, EveryCommandAcceptsTokensAsIdsOrAFileOfIds) {
  WriteAll(workspace_ / "ids.txt", "5 6\n7\n");
  for (const char* command : {"run fixtures/tiny-moe -n 2", "profile fixtures/tiny-moe"}) {
    const auto ids = workspace_.Json(std::string(command) + " --json --tokens 5,6,7");
    const auto file = workspace_.Json(std::string(command) + " --json --tokens ids.txt");
    for (const char* member : {"prompt_tokens", "tokens", "layers"})
      EXPECT_EQ(ids.value(member, nlohmann::json()), file.value(member, nlohmann::json()));
  }
}

TEST_F(OptionRules, JobsAndThreadsAreDifferentOptions) {
  EXPECT_EQ(workspace_.Moepack("run fixtures/tiny-moe --tokens 5 -n 1 --jobs 1 --threads 2").status,
            0);
  for (const char* command : {"run", "check", "profile", "eval"}) {
    const std::string help = workspace_.Moepack(std::string("help ") + command).out;
    EXPECT_THAT(help, HasSubstr("--jobs N"));
    EXPECT_THAT(help, HasSubstr("--threads N"));
  }
  EXPECT_EQ(workspace_.Moepack("verify out --threads 2").status, 2);
}

TEST_F(OptionRules, ListDevicesPrintsJsonOnRequest) {
  const auto document = workspace_.Json("run --list-devices --json");
  ASSERT_TRUE(document["executors"].is_array());
  const auto& cpu = document["executors"][0];
  EXPECT_EQ(cpu["executor"], "cpu");
  EXPECT_EQ(cpu["missing"], nullptr);
  EXPECT_EQ(cpu["devices"][0]["device"], 0);
  EXPECT_NE(cpu["devices"][0]["name"], "");
}

TEST_F(OptionRules, QuietSilencesNotesAndWarningsButNotErrors) {
  const std::string build = "build fixtures/tiny-moe --groups 2 --recipe Q8_0 -o out";
  const ToolRun loud = workspace_.Moepack(build + " --dry-run");
  EXPECT_NE(loud.err, "");
  const ToolRun quiet = workspace_.Moepack(build + " --dry-run --quiet");
  EXPECT_EQ(quiet.status, 0);
  EXPECT_EQ(quiet.err, "");
  EXPECT_THAT(quiet.out, testing::MatchesRegex("would write [^\n]+ to out, and [^\n]+\n"));
  EXPECT_THAT(loud.out, HasSubstr(quiet.out));
  EXPECT_EQ(workspace_.Moepack(build + " --dry-run -q").out, quiet.out);
  EXPECT_THAT(workspace_.Moepack("verify nothing --quiet").err, StartsWith("error: "));
}

TEST_F(OptionRules, StrictMakesWarningsFailWithStatus6) {
  const std::string build = "build fixtures/tiny-moe --groups 3 -o ";
  const ToolRun warned = workspace_.Moepack(build + "out");
  EXPECT_EQ(warned.status, 0);
  ASSERT_THAT(warned.err, HasSubstr("warning: "));
  const ToolRun strict = workspace_.Moepack(build + "strict --strict");
  EXPECT_EQ(strict.status, 6);
  EXPECT_THAT(strict.err,
              HasSubstr("error: build: finished with 2 warnings, which --strict does not allow"));
  EXPECT_TRUE(fs::exists(workspace_ / "strict/distribution.json")) << "the output stays";
  EXPECT_EQ(workspace_.Moepack(build + "silent --strict --quiet").status, 6);
  EXPECT_EQ(workspace_.Moepack("list-tensors fixtures/tiny-moe --strict").status, 0);
}

TEST_F(OptionRules, StrictCountsTheWarningsOfVerify) {
  Build("-o out");
  WriteAll(workspace_ / "out/stray.txt", "not listed");
  const ToolRun plain = workspace_.Moepack("verify out");
  EXPECT_EQ(plain.status, 0) << plain.out;
  ASSERT_THAT(plain.out, HasSubstr("warning: "));
  EXPECT_EQ(workspace_.Moepack("verify out --strict").status, 6);
  EXPECT_EQ(workspace_.Moepack("verify out --strict --format junit").status, 6);
}

}  // namespace
}  // namespace moepack::cli
