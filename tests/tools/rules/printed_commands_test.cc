// Command lines that moepack prints are run unchanged, by /bin/sh, whatever the paths are.
#include <gmock/gmock.h>

#include <sstream>

#include "tests/libshard/recipe/imatrix_file.h"
#include "tests/tools/run_moepack.h"
#include "tools/base/command_text.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;

// Lines of "next:" and "run it:", and the commands in the back quotes of hints.
std::vector<std::string> CommandsIn(const std::string& text) {
  std::vector<std::string> commands;
  bool listing = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == "next:" || line == "run it:") {
      listing = true;
    } else if (listing && line.starts_with("  ")) {
      commands.push_back(line.substr(2));
    } else {
      listing = false;
    }
    if (!line.starts_with("hint: ")) continue;
    const size_t start = line.find("`moepack ");
    if (start == line.npos) continue;
    commands.push_back(line.substr(start + 1, line.find('`', start + 1) - start - 1));
  }
  return commands;
}

class PrintedCommands : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(workspace_ / "bin");
    fs::create_symlink(MOEPACK_BINARY, workspace_ / "bin/moepack");
    WriteAll(workspace_ / "bin/llama-server", "#!/bin/sh\ntest \"$1\" = -m && test -f \"$2\"\n");
    fs::permissions(workspace_ / "bin/llama-server", fs::perms::owner_all);
  }

  // Runs a command, from a directory of the workspace; its output goes to `log`.
  void RunLine(const std::string& command, int status = 0, const std::string& from = ".") {
    WriteAll(workspace_ / "line.sh", command + "\n");
    const std::string top = "'" + workspace_.path().string() + "'";
    const std::string line =
        "cd " + top + " && top=$PWD && cd " + from +
        " && PATH=\"$top/bin:$PATH\" /bin/sh \"$top/line.sh\" >\"$top/log\" 2>&1";
    const int ended = std::system(line.c_str());
    EXPECT_TRUE(WIFEXITED(ended) && WEXITSTATUS(ended) == status) << command << "\n"
                                                                  << ReadFile(workspace_ / "log");
  }

  // Runs every command that `run` printed and returns how many there were.
  size_t RunPrinted(const ToolRun& run, int status = 0) {
    const std::vector<std::string> commands = CommandsIn(run.out + run.err);
    for (const std::string& command : commands) {
      RunLine(command, status);
      const std::string log = ReadFile(workspace_ / "log");
      const std::vector<std::string> more = CommandsIn(log);
      if (!more.empty()) RunPrinted({0, log, ""});
    }
    return commands.size();
  }
  size_t RunAndRunPrinted(const std::string& arguments, int status = 0, int printed_status = 0) {
    const ToolRun run = workspace_.Moepack(arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
    return RunPrinted(run, printed_status);
  }
  // Replaces its last byte.
  void Damage(const std::string& file) {
    std::string bytes = ReadFile(workspace_ / file);
    bytes.back() = static_cast<char>(bytes.back() ^ 1);
    WriteAll(workspace_ / file, bytes);
  }

  Workspace workspace_;
};

TEST_F(PrintedCommands, CommandsPrintedByBuildRunWithPlainPaths) {
  EXPECT_EQ(RunAndRunPrinted("build fixtures/tiny-moe --groups 2 -o out"), 2u);
  // node-0 exists now, so the second line names another directory.
  EXPECT_EQ(RunAndRunPrinted("build fixtures/tiny-moe --groups 2 --recipe Q8_0 -o out-8"), 2u);
}

TEST_F(PrintedCommands, CommandsPrintedByBuildKeepOptionsAndQuotePaths) {
  const std::string odd = "it's \"my\" $HOME;`id` &\n\x1b model";
  fs::rename(workspace_ / "fixtures/tiny-moe", workspace_ / odd);
  fs::rename(workspace_ / odd / "config.json", workspace_ / ("config " + odd));
  const std::string matrix = "imatrix " + odd + ".gguf";
  fixtures::ImatrixPart part{"blk.0.attn_q.weight", std::vector<float>(256, 2), {1}};
  WriteAll(workspace_ / matrix, fixtures::GgufBytes(fixtures::ImatrixFile({part})));
  CommandLine line("build");
  line.AddPath(odd);
  line.AddPath("--config", "config " + odd);
  line.AddPath("--imatrix", matrix);
  line.Add("--pre", "qwen2");
  line.Add("--no-mtp");
  line.Add("--recipe", "Q4_K_M");
  line.Add("--groups", "2");
  line.AddPath("-o", "-out " + odd);
  const std::string arguments = line.Text().substr(std::string("moepack ").size());
  EXPECT_EQ(RunAndRunPrinted(arguments), 2u);
  EXPECT_TRUE(fs::exists(workspace_ / "node-0"));
}

TEST_F(PrintedCommands, CommandsPrintedByBuildNameTheFamilyFile) {
  WriteAll(workspace_ / "my family.json", R"({"name": "my-moe", "prefixes": ["model."], "rules": [
    {"pattern": "embed_tokens.weight", "part": "trunk", "role": "embedding"},
    {"pattern": "norm.weight", "part": "trunk", "role": "norm"},
    {"pattern": "lm_head.weight", "part": "trunk", "role": "head"},
    {"pattern": "layers.{L}.{*}norm.{W}", "part": "trunk", "role": "norm"},
    {"pattern": "layers.{L}.self_attn.{**}", "part": "trunk", "role": "attention"},
    {"pattern": "layers.{L}.mlp.gate.weight", "part": "router", "role": "router",
     "expert_axis": 0},
    {"pattern": "layers.{L}.mlp.experts.{E}.gate_proj.{W}", "part": "expert", "role": "gate"},
    {"pattern": "layers.{L}.mlp.experts.{E}.up_proj.{W}", "part": "expert", "role": "up"},
    {"pattern": "layers.{L}.mlp.experts.{E}.down_proj.{W}", "part": "expert", "role": "down"}]})");
  const ToolRun run =
      workspace_.Moepack("build fixtures/tiny-moe --family 'my family.json' --groups 2 -o out");
  EXPECT_THAT(run.out, HasSubstr(" --family 'my family.json'\n"));
  EXPECT_EQ(RunPrinted(run), 2u);
}

TEST_F(PrintedCommands, CommandsPrintedByBuildNameOnlyNodesThatCanBeAssembled) {
  const std::string build =
      "build fixtures/tiny-moe --groups 3 --overlay-file fixtures/tiny-overlay.json --recipe Q8_0 ";
  EXPECT_EQ(RunAndRunPrinted(build + "--overlay-type q4_K -o other-type"), 1u);
  EXPECT_EQ(RunAndRunPrinted(build + "-o same-type"), 2u);
}

TEST_F(PrintedCommands, CommandsPrintedByBuildHaveNoNeedlessOptions) {
  const std::string out = workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out").out;
  EXPECT_THAT(out, HasSubstr("\n  moepack verify out --against fixtures/tiny-moe\n"));
  EXPECT_THAT(out, HasSubstr("\n  moepack assemble out --group 0 -o node-0\n"));
}

TEST_F(PrintedCommands, TheCommandPrintedByAssembleNamesTheFirstFile) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 --recipe Q8_0 -o out").status,
            0);
  EXPECT_EQ(RunAndRunPrinted("assemble out --group 1 -o \"a node's\""), 1u);
}

TEST_F(PrintedCommands, CommandsPrintedByPublishAndPullRun) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 --recipe Q8_0 -o out").status,
            0);
  EXPECT_EQ(RunAndRunPrinted("publish out layout:models:v1"), 1u);
  EXPECT_EQ(RunAndRunPrinted("pull layout:models:v1 --group 1 --output=-pulled"), 2u);
  EXPECT_TRUE(fs::exists(workspace_ / "node-1"));
  // node-1 exists now, so the line names another directory.
  EXPECT_EQ(RunAndRunPrinted("pull layout:models:v1 --output=-pulled"), 2u);
  const ToolRun run = workspace_.Moepack("pull layout:models:v1 -o ./-pulled --assemble=-node");
  EXPECT_THAT(run.out, HasSubstr("\n  llama-server -m ./-node/"));
  EXPECT_EQ(RunPrinted(run), 1u);
}

TEST_F(PrintedCommands, CommandsInHintsRun) {
  ASSERT_EQ(workspace_.Moepack("plan fixtures/tiny-moe --groups 2").status, 0);
  EXPECT_EQ(RunAndRunPrinted("plan fixtures/tiny-moe --gruops 2", 2), 0u);  // "did you mean"
  EXPECT_EQ(RunAndRunPrinted("plan", 2), 1u);
  EXPECT_EQ(RunAndRunPrinted("nonsense", 2), 1u);
  EXPECT_EQ(RunAndRunPrinted("help plan more", 2), 1u);
}

TEST_F(PrintedCommands, HintsOfADamagedDistributionNameItsPath) {
  const std::string build = "build fixtures/tiny-moe --groups 2 --no-verify ";
  ASSERT_EQ(workspace_.Moepack(build + "-o \"an 'out'\"").status, 0);
  ASSERT_EQ(workspace_.Moepack(build + "--recipe Q8_0 -o ./-q8").status, 0);
  Damage("an 'out'/trunk/trunk.safetensors");
  Damage("an 'out'/groups/000/experts.safetensors");
  Damage("-q8/trunk/trunk.gguf");
  const std::string out = " \"an 'out'\" ";
  EXPECT_EQ(RunAndRunPrinted("assemble" + out + "--group 0 -o node", 6, 6), 1u);
  EXPECT_EQ(RunAndRunPrinted("run" + out + "--tokens 1", 6, 6), 1u);
  EXPECT_EQ(RunAndRunPrinted("check" + out, 6, 6), 1u);
  EXPECT_EQ(RunAndRunPrinted("assemble ./-q8 --group 0 -o node", 6, 6), 1u);
  EXPECT_EQ(RunAndRunPrinted("profile ./-q8 --tokens 1", 6, 6), 1u);
  EXPECT_EQ(RunAndRunPrinted("quantize ./-q8 --recipe Q4_0 --allow-requantize -o q4", 6, 6), 1u);
}

TEST_F(PrintedCommands, HintsOfADamagedNodeNameItsPath) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 --no-verify -o out").status, 0);
  ASSERT_EQ(workspace_.Moepack("assemble out --group 0 -o 'my node'").status, 0);
  Damage("my node/config.json");
  EXPECT_EQ(RunAndRunPrinted("run 'my node' --tokens 1", 6, 6), 1u);
}

TEST_F(PrintedCommands, TheHintOfAConfigThatContradictsItsTensorsNamesBoth) {
  const auto source = workspace_ / "fixtures/tiny-moe";
  nlohmann::json config = nlohmann::json::parse(ReadFile(source / "config.json"));
  config["num_hidden_layers"] = 4;
  WriteAll(workspace_ / "my config.json", config.dump());
  EXPECT_EQ(RunAndRunPrinted("quantize fixtures/tiny-moe --config 'my config.json' --recipe Q8_0 "
                             "-o a.gguf",
                             3, 3),
            1u);
  WriteAll(source / "config.json", config.dump());
  fs::rename(source, workspace_ / "tiny 'moe'");
  EXPECT_EQ(RunAndRunPrinted("quantize \"tiny 'moe'\" --recipe Q8_0 -o a.gguf", 3, 3), 1u);
}

TEST_F(PrintedCommands, CommandsInAReadmeRunFromItsDirectory) {
  for (const std::string name : {"out", "out-8"}) {
    ASSERT_EQ(workspace_
                  .Moepack("build fixtures/tiny-moe --groups 2 --no-verify -o " + name +
                           (name == "out" ? "" : " --recipe Q8_0"))
                  .status,
              0);
    const std::string readme = ReadFile(workspace_ / name / "README.md");
    std::istringstream lines(readme.substr(readme.find("```\n") + 4));
    size_t commands = 0;
    for (std::string line; std::getline(lines, line) && line != "```"; ++commands)
      RunLine(line, 0, name);
    EXPECT_EQ(commands, name == "out" ? 2u : 3u);
    fs::remove_all(workspace_ / "node-0");
  }
}

TEST(CommandLineText, QuotesWordsAndProtectsPathsThatLookLikeOptions) {
  CommandLine line("verify");
  line.AddPath("-dir");
  line.Add("--pre", "");
  line.AddPath("--against", "a b");
  line.Add("--no-mtp");
  EXPECT_EQ(line.Text(), "moepack verify ./-dir --against 'a b' --no-mtp");
}

TEST(CommandLineText, AFreePathDoesNotExistYet) {
  const fixtures::TempDir dir;
  const std::string path = (dir / "node-0").string();
  EXPECT_EQ(FreePath(path), path);
  fs::create_directories(path);
  fs::create_symlink("nowhere", path + "-2");
  EXPECT_EQ(FreePath(path), path + "-3");
}

}  // namespace
}  // namespace moepack::cli
