// The rules for all commands: streams, exit status, help, "did you mean".
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>

#include "libshard/base/text/text.h"
#include "tests/tools/run_moepack.h"
#include "tools/base/command.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

const char* const kCommands[] = {
    "list-tensors", "plan",    "shard-experts", "quantize", "build", "join", "verify",
    "diff",         "overlay", "assemble",      "publish",  "pull",  "ls",   "keygen",
    "sign",         "run",     "check",         "profile",  "eval"};

TEST(CommandLine, WithoutArgumentsTheOverviewIsAUsageError) {
  const ToolRun run = Workspace().Moepack("");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("usage: moepack COMMAND"));
}

TEST(CommandLine, HelpListsEveryCommand) {
  const ToolRun run = Workspace().Moepack("help");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.err, "");
  for (const char* command : kCommands) EXPECT_THAT(run.out, HasSubstr(command));
}

TEST(CommandLine, HelpListsCommandsInSections) {
  std::istringstream help(Workspace().Moepack("help").out);
  std::vector<std::string> titles;
  for (std::string line; std::getline(help, line);) {
    if (line.ends_with(':') && std::isupper(line.front()) != 0) titles.push_back(line);
  }
  EXPECT_THAT(titles, testing::ElementsAre("Look and plan:", "Split and quantize:",
                                           "Check and compare:", "Publish and fetch:",
                                           "Maintain registries:", "Run and measure:", "Set up:"));
}

TEST(CommandLine, TheReferenceHasTheSectionsOfTheHelp) {
  const Workspace workspace;
  const std::string reference = workspace.Moepack("help --markdown").out;
  size_t at = 0;
  for (const char* heading : {"## Shared options\n", "## Look and plan\n\n### list-tensors\n",
                              "## Split and quantize\n\n### shard-experts\n",
                              "## Run and measure\n\n### place\n", "## Exit status\n"}) {
    at = reference.find(heading, at);
    ASSERT_NE(at, std::string::npos) << heading;
  }
}

TEST(CommandLine, TheReferenceDescribesASharedOptionOnce) {
  const std::string reference = Workspace().Moepack("help --markdown").out;
  const size_t row = reference.find("| `--json` | ");
  ASSERT_NE(row, std::string::npos);
  EXPECT_LT(row, reference.find("\n### "));
  EXPECT_EQ(reference.find("| `--json` | ", row + 1), std::string::npos);
  // A command names what it shares; its own meaning of a name has a row of its own.
  const std::string run = reference.substr(reference.find("\n### run\n"));
  const std::string shared = run.substr(run.find("[Shared](#shared-options): "), 400);
  EXPECT_THAT(shared, HasSubstr("`--json`"));
  EXPECT_LT(run.find("| `--context N` | "), run.find("[Shared]"));
}

TEST(CommandLine, VersionIsOneLineOnStdout) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack("--version");
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(workspace.Moepack("version").out, run.out);
  EXPECT_THAT(run.out, testing::MatchesRegex("moepack [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(CommandLine, TheHelpOfEveryCommandStartsWithTwoExamples) {
  const Workspace workspace;
  for (const std::string command : kCommands) {
    const ToolRun run = workspace.Moepack("help " + command);
    EXPECT_EQ(run.status, 0);
    const std::string example = "  moepack " + command + " ";
    EXPECT_THAT(run.out, StartsWith("Examples:\n" + example));
    EXPECT_NE(run.out.find(example, run.out.find(example) + 1), std::string::npos) << command;
    EXPECT_EQ(workspace.Moepack(command + " --help").out, run.out);
  }
}

TEST(CommandLine, HelpListsOptionsInSections) {
  std::istringstream help(Workspace().Moepack("help build").out);
  std::vector<std::string> titles;
  for (std::string line; std::getline(help, line);) {
    if (line.ends_with(':') && !line.starts_with(' ')) titles.push_back(line);
  }
  EXPECT_THAT(titles, testing::ElementsAre(
                          "Examples:", "Arguments:", "Input:", "Split:",
                          "Conversion and quantization:", "Output:", "Checks:", "Refit:",
                          "Calibration:", "Remote sources:", "Tasks:", "Resources:", "General:"));
}

// One screen: what a user needs, with every essential option, and nothing else.
TEST(CommandLine, TheShortHelpOfEveryCommandFitsAScreen) {
  const Workspace workspace;
  for (const ListedCommand& row : kListedCommands) {
    const std::string command(row.command->name);
    const std::string help = workspace.Moepack(command + " -h").out;
    EXPECT_LE(std::count(help.begin(), help.end(), '\n'), 40) << help;
    EXPECT_THAT(help, HasSubstr("\nusage: moepack " + command)) << command;
    const std::string example = "\n  moepack " + command + " ";
    EXPECT_NE(help.find(example, help.find(example) + 1), std::string::npos) << command;
    EXPECT_THAT(help, HasSubstr("`moepack " + command + " --help`"));
    std::istringstream lines(help);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("  moepack ")) continue;
      EXPECT_LE(line.size(), 100u) << line;
    }
    for (const std::string_view option : row.command->essential) {
      if (option.empty()) continue;
      EXPECT_THAT(help, testing::ContainsRegex(Cat("\n  [^\n]*", option, "[, \n]"))) << command;
    }
  }
}

TEST(CommandLine, SectionsThatFewNeedAreOnlyInTheWholeHelp) {
  const Workspace workspace;
  const std::string brief = workspace.Moepack("build -h").out;
  for (const char* option : {"--endpoint", "--task", "--lambda", "--calibrate-shrink", "--jobs"}) {
    EXPECT_THAT(brief, testing::Not(HasSubstr(option)));
    EXPECT_THAT(workspace.Moepack("build --help").out, HasSubstr(option));
  }
}

TEST(CommandLine, CommandsHaveTheNamesThatPeopleType) {
  const Workspace workspace;
  for (const auto& [alias, command] : std::vector<std::pair<std::string, std::string>>{
           {"push", "publish"}, {"split", "shard-experts"}, {"info", "inspect"}}) {
    EXPECT_EQ(workspace.Moepack(alias + " --help").out, workspace.Moepack(command + " --help").out);
    EXPECT_THAT(workspace.Moepack(command + " -h").out,
                HasSubstr("; `moepack " + alias + "` is the same.\n"));
  }
  EXPECT_THAT(workspace.Moepack("push").err, StartsWith("error: publish: "));
}

TEST(CommandLine, TheHelpOfEveryCommandEndsWithTheSameGeneralOptions) {
  const Workspace workspace;
  const auto general = [&](const std::string& command) {
    const std::string help = workspace.Moepack("help " + command).out;
    const size_t start = help.find("  --json\n", help.find("\nGeneral:\n"));
    return start == help.npos ? "" : help.substr(start);
  };
  const std::string expected = general("plan");
  EXPECT_THAT(expected, HasSubstr("\n  --strict\n"));
  for (const char* command : kCommands) EXPECT_EQ(general(command), expected) << command;
}

TEST(CommandLine, AMistypedCommandIsSuggested) {
  const ToolRun run = Workspace().Moepack("verfy out");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.err, "error: unknown command \"verfy\"\nhint: did you mean verify?\n");
}

TEST(CommandLine, SwappedLettersOfACommandAreSuggested) {
  EXPECT_EQ(Workspace().Moepack("biuld out").err,
            "error: unknown command \"biuld\"\nhint: did you mean build?\n");
}

TEST(CommandLine, WordsOfOtherProgramsLeadToWhatFits) {
  const Workspace workspace;
  EXPECT_EQ(workspace.Moepack("export out").err,
            "error: unknown command \"export\"\nhint: `moepack quantize` writes GGUF, `moepack "
            "assemble` a node that a runtime loads\n");
  EXPECT_THAT(workspace.Moepack("upload out").err, HasSubstr("hint: `moepack publish`"));
}

TEST(CommandLine, HelpOfHelpIsTheOverview) {
  const Workspace workspace;
  const ToolRun run = workspace.Moepack("help help");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.out, workspace.Moepack("help").out);
  EXPECT_EQ(workspace.Moepack("help --help").out, run.out);
}

TEST(CommandLine, MistypedValuesAreSuggested) {
  const Workspace workspace;
  const auto build = [](const char* options) {
    return Cat("build fixtures/tiny-moe --groups 2 -o out ", options);
  };
  for (const auto& [arguments, meant] : std::vector<std::pair<std::string, std::string>>{
           {build("--quantize Q4_KM"), "Q4_K_M"},
           {build("--pure q4k"), "q4_K"},
           {build("--experts-type q8_O"), "q8_0"},
           {build("--tensor-type ffn_down=q6k"), "q6_K"},
           {build("--format ggfu"), "gguf"},
           {build("--partition moduol"), "modulo"},
           {"plan fixtures/tiny-moe --groups 2 --context 64 --kv-type q8_O", "q8_0"},
           {"profile fixtures/tiny-moe --text fixtures/texts/header.txt --executor vulcan",
            "vulkan"},
           {"statistics show fixtures/statistics/profile.json --from sglangs", "sglang"},
           {"statistics convert fixtures/statistics/profile.json --to sglagn -o x", "sglang"},
           {"statistics mrege fixtures/statistics/profile.json", "merge"},
           {"verify out --format jnuit", "junit"},
           {"experiment fixtures/tiny-moe --strategies moduol --text fixtures/texts/header.txt -o "
            "x",
            "modulo"}}) {
    const ToolRun run = workspace.Moepack(arguments);
    EXPECT_EQ(run.status, 2) << arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr(Cat("hint: did you mean ", meant, "?\n"))) << arguments;
  }
}

TEST(CommandLine, ARecipeWithoutItsMarksIsSuggested) {
  const Workspace workspace;
  for (const auto& [typed, meant] :
       std::vector<std::pair<std::string, std::string>>{{"Q4KM", "Q4_K_M"},
                                                        {"Q5KM", "Q5_K_M"},
                                                        {"q4-k-m", "Q4_K_M"},
                                                        {"Q8", "Q8_0"},
                                                        {"Q4", "Q4_K_S, Q4_K_M, Q4_0 or Q4_1"}}) {
    const ToolRun run =
        workspace.Moepack("build fixtures/tiny-moe --groups 2 -o out --quantize " + typed);
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_THAT(run.err,
                HasSubstr(Cat("found \"", typed, "\"\nhint: did you mean ", meant, "?\n")));
  }
}

TEST(CommandLine, MistypedOptionsOfTheProgramAreSuggestedEverywhere) {
  const Workspace workspace;
  EXPECT_EQ(workspace.Moepack("--hlep").err,
            "error: unknown option \"--hlep\"\nhint: did you mean --help?\n");
  EXPECT_EQ(workspace.Moepack("--versoin").err,
            "error: unknown option \"--versoin\"\nhint: did you mean --version?\n");
  EXPECT_EQ(workspace.Moepack("help --markdwon").err,
            "error: unknown option \"--markdwon\"\nhint: did you mean --markdown?\n");
  EXPECT_THAT(workspace.Moepack("--json plan").err, HasSubstr("hint: options follow the command"));
  EXPECT_THAT(workspace.Moepack("plan --hlep").err, HasSubstr("hint: did you mean --help?\n"));
  for (const char* arguments : {"plan --version", "plan --versoin"})
    EXPECT_THAT(workspace.Moepack(arguments).err,
                HasSubstr("hint: `moepack --version` prints the version\n"));
}

TEST(CommandLine, OptionsOfOtherProgramsLeadToOurs) {
  const Workspace workspace;
  for (const auto& [arguments, hint] : std::vector<std::pair<std::string, std::string>>{
           {"build fixtures/tiny-moe --nodes 4 -o out", "did you mean --groups?"},
           {"quantize fixtures/tiny-moe --type Q4_K -o out", "did you mean --recipe?"},
           {"quantize fixtures/tiny-moe --outfile out", "did you mean --output?"},
           {"build fixtures/tiny-moe --threads 4", "did you mean --jobs?"},
           {"plan --model fixtures/tiny-moe --groups 2", "SRC is given without an option"}}) {
    const ToolRun run = workspace.Moepack(arguments);
    EXPECT_EQ(run.status, 2) << arguments;
    EXPECT_THAT(run.err, HasSubstr(Cat("hint: ", hint, "\n"))) << arguments;
  }
}

TEST(CommandLine, AFlagTakesNoValue) {
  const Workspace workspace;
  for (const std::string flag : {"--quiet=banana", "--json=false", "--no-uniform=1"}) {
    const std::string name = flag.substr(0, flag.find('='));
    const ToolRun run = workspace.Moepack("plan fixtures/tiny-moe --groups 2 " + flag);
    EXPECT_EQ(run.status, 2) << flag;
    EXPECT_EQ(run.out, "") << flag;
    EXPECT_THAT(run.err, StartsWith(Cat("error: plan: ", name, ": expected no value, found \"",
                                        flag.substr(name.size() + 1), "\"\nhint: ", name,
                                        " is a flag: give it alone, or leave it out\n")));
  }
}

TEST(CommandLine, AMistypedOptionIsSuggestedWithTheUsage) {
  const ToolRun run = Workspace().Moepack("plan fixtures/tiny-moe --grops 3");
  EXPECT_EQ(run.status, 2);
  EXPECT_EQ(run.out, "");
  EXPECT_EQ(run.err,
            "error: plan: unknown option \"--grops\"\nhint: did you mean --groups?\n"
            "usage: moepack plan SRC [options]\n");
}

TEST(CommandLine, UsageErrorsHaveStatus2AndSayNothingOnStdout) {
  const Workspace workspace;
  for (const char* arguments :
       {"list-tensors", "list-tensors a b", "plan fixtures/tiny-moe",
        "plan fixtures/tiny-moe --groups 0", "plan fixtures/tiny-moe --groups 17",
        "plan fixtures/tiny-moe --groups 3 --partition random",
        "plan fixtures/tiny-moe --groups 3 --json -o -",
        "shard-experts fixtures/tiny-moe --groups 3",
        "shard-experts fixtures/tiny-moe --groups 3 -o d --only group:3",
        "shard-experts fixtures/tiny-moe --groups 3 -o d --memory lots",
        "shard-experts fixtures/tiny-moe --groups 3 -o d --jobs 0",
        "shard-experts fixtures/tiny-moe --groups 3 -o d --format zip",
        "build fixtures/tiny-moe --groups 3 -o d --prove --no-verify", "verify d --format xml",
        "verify d --format text --json", "help nothing", "help plan more"}) {
    const ToolRun run = workspace.Moepack(arguments);
    EXPECT_EQ(run.status, 2) << arguments << "\n" << run.err;
    EXPECT_EQ(run.out, "") << arguments;
    EXPECT_THAT(run.err, HasSubstr("error: ")) << arguments;
  }
}

TEST(CommandLine, AMissingFileHasStatus5) {
  const Workspace workspace;
  for (const char* arguments : {"list-tensors nothing", "verify nothing", "diff nothing nothing",
                                "assemble nothing --group 0 -o d",
                                "plan fixtures/tiny-moe --groups 3 --overlay-file nothing"}) {
    const ToolRun run = workspace.Moepack(arguments);
    EXPECT_EQ(run.status, 5) << arguments << "\n" << run.err;
    EXPECT_THAT(run.err, HasSubstr("nothing")) << arguments;
  }
}

TEST(CommandLine, ACorruptFileHasStatus3) {
  const Workspace workspace;
  std::filesystem::resize_file(workspace / "fixtures/tiny-moe/model-00002-of-00003.safetensors",
                               1000);
  const ToolRun run = workspace.Moepack("build fixtures/tiny-moe --groups 3 -o out");
  EXPECT_EQ(run.status, 3) << run.err;
  EXPECT_THAT(run.err, HasSubstr("model-00002-of-00003.safetensors"));
  EXPECT_FALSE(std::filesystem::exists(workspace / "out"));
}

TEST(CommandLine, ADenseModelHasStatus4) {
  const Workspace workspace;
  WriteAll(workspace / "fixtures/tiny-moe/config.json",
           R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",
               "num_hidden_layers": 3, "hidden_size": 256})");
  const ToolRun run = workspace.Moepack("list-tensors fixtures/tiny-moe");
  EXPECT_EQ(run.status, 4) << run.err;
  EXPECT_EQ(run.out, "");
}

TEST(CommandLine, AFullStandardOutputIsAnIoError) {
  if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "/dev/full is absent: 0 checked";
  const ToolRun run = Workspace().Moepack("list-tensors fixtures/tiny-moe >/dev/full");
  EXPECT_EQ(run.status, 5);
  EXPECT_THAT(run.err, HasSubstr("error: standard output: writing failed"));
}

TEST(CommandLine, NoProgressIsDrawnIntoAPipe) {
  const ToolRun run = Workspace().Moepack("build fixtures/tiny-moe --groups 3 -o out");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(run.err.find('\r'), std::string::npos);
  EXPECT_EQ(run.err.find('\033'), std::string::npos);
  std::istringstream lines(run.err);
  for (std::string line; std::getline(lines, line);) EXPECT_THAT(line, StartsWith("warning: "));
}

}  // namespace
}  // namespace moepack::cli
