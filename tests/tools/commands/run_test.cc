#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "tests/tools/run_moepack.h"
#include "tests/tools/terminal_moepack.h"

namespace moepack::cli {
namespace {

namespace fs = std::filesystem;

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class Run : public testing::Test {
 protected:
  void Split(const std::string& more = "") {
    const ToolRun run = workspace_.Moepack(
        "build fixtures/tiny-moe --groups 3 --overlay-file fixtures/tiny-overlay.json -o out "
        "--no-verify " +
        more);
    ASSERT_EQ(run.status, 0) << run.err;
  }

  // A usage or other error, and what it says.
  std::string Failure(const std::string& arguments, int status) {
    const ToolRun run = workspace_.Moepack("run --threads 1 " + arguments);
    EXPECT_EQ(run.status, status) << arguments << "\n" << run.err;
    EXPECT_EQ(run.out, "");
    return run.err;
  }

  Workspace workspace_;
};

TEST_F(Run, ContinuesThePromptAndReportsWhatItLoaded) {
  Split();
  const ToolRun run =
      workspace_.Moepack("run --threads 1 out --group 1 --prompt 'int main(' -n 12");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_GT(run.out.size(), 5u);
  EXPECT_TRUE(run.out.ends_with('\n'));
  EXPECT_THAT(run.err, AllOf(HasSubstr("trunk"), HasSubstr("group 1"), HasSubstr("generalists-1"),
                             HasSubstr("routers pick among 8 experts per layer"),
                             HasSubstr("versions: model "), HasSubstr("generated: 12 tokens")));
  EXPECT_THAT(run.err, Not(HasSubstr("group 0")));
}

TEST_F(Run, GivesTheSameTokensFromEveryFormOfAModel) {
  Split("--format gguf");
  const std::string end = " --prompt 'def f(x):' -n 10 --json";
  ASSERT_EQ(workspace_.Moepack("assemble out --group 2 -o node").status, 0);
  const auto bundles = workspace_.Json("run --threads 1 out --group 2" + end);
  const auto node = workspace_.Json("run --threads 1 node" + end);
  EXPECT_EQ(bundles["tokens"], node["tokens"]);
  const auto all = workspace_.Json("run --threads 1 out" + end);
  const auto source = workspace_.Json("run --threads 1 fixtures/tiny-moe" + end);
  EXPECT_EQ(all["tokens"], source["tokens"]);
  EXPECT_NE(all["tokens"], bundles["tokens"]);
}

TEST_F(Run, JsonHasTokensTextAndWhatWasLoaded) {
  Split();
  const auto run =
      workspace_.Json("run --threads 1 out --group 0 --prompt 'The license' -n 5 --json");
  EXPECT_EQ(run["group"], 0);
  EXPECT_EQ(run["stop"], "length");
  ASSERT_EQ(run["tokens"].size(), 5u);
  for (const auto& token : run["tokens"]) EXPECT_LE(token["logprob"], 0);
  EXPECT_GT(run["prompt_tokens"].size(), 1u);
  EXPECT_FALSE(run["text"].get<std::string>().empty());
  EXPECT_EQ(run["loaded"]["executor"], "cpu");
  EXPECT_GT(run["loaded"]["parts"].size(), 2u);
  EXPECT_TRUE(run["loaded"]["model_version"].is_string());
}

TEST_F(Run, AcceptsTokensInsteadOfText) {
  const auto text =
      workspace_.Json("run --threads 1 fixtures/tiny-moe --prompt 'import os' -n 4 --json");
  std::string ids;
  for (const auto& id : text["prompt_tokens"]) ids += id.dump() + ",";
  const auto tokens =
      workspace_.Json("run --threads 1 fixtures/tiny-moe --tokens " + ids + " -n 4 --json");
  EXPECT_EQ(tokens["tokens"], text["tokens"]);
  EXPECT_EQ(tokens["group"], nullptr);
}

TEST_F(Run, TakesIdsAndPrintsIdsWithoutATokenizer) {
  const std::string with = "run --threads 1 fixtures/tiny-moe --tokens 1,2,3 -n 2 --json";
  const auto tokens = workspace_.Json(with)["tokens"];
  for (const char* file : {"tokenizer.json", "tokenizer_config.json"})
    fs::remove(workspace_ / "fixtures/tiny-moe" / file);
  Split();
  const std::string ids = tokens[0]["id"].dump() + " " + tokens[1]["id"].dump();
  for (const char* source : {"fixtures/tiny-moe", "out"}) {
    const std::string start = std::string("run --threads 1 ") + source;
    const ToolRun run = workspace_.Moepack(start + " --tokens 1,2,3 -n 2");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_EQ(run.out, ids + "\n");
    EXPECT_THAT(run.err, HasSubstr("only token ids, no text: "));
    EXPECT_EQ(workspace_.Json(start + " --tokens 1,2,3 -n 2 --json")["text"], ids);
    EXPECT_THAT(Failure(std::string(source) + " --prompt int", 5),
                HasSubstr("tokenizer.json: expected the tokenizer, found no such file"));
  }
}

TEST_F(Run, OtherCommandsTakeIdsWithoutATokenizer) {
  fs::remove(workspace_ / "fixtures/tiny-moe/tokenizer.json");
  Split();
  for (const char* command :
       {"profile fixtures/tiny-moe --tokens 1,2,3,4", "eval out --tokens 1,2,3,4,5,6,7,8",
        "check out --tokens 1,2,3", "place out --rule probe --tokens 1,2,3"}) {
    const ToolRun run = workspace_.Moepack(std::string(command) + " --threads 1");
    EXPECT_EQ(run.status, 0) << command << "\n" << run.err;
  }
  WriteAll(workspace_ / "a.txt", "int main(");
  const ToolRun run = workspace_.Moepack("profile fixtures/tiny-moe --text a.txt --threads 1");
  EXPECT_EQ(run.status, 5) << run.err;
  EXPECT_THAT(run.err, HasSubstr("tokenizer.json: expected the tokenizer, found no such file"));
}

TEST_F(Run, EqualSeedsGiveEqualTextAndOtherSeedsDoNot) {
  const std::string start =
      "run --threads 1 fixtures/tiny-moe --prompt 'The ' -n 24 --temperature 1 --top-k 50 --top-p "
      "0.95 --json";
  const auto one = workspace_.Json(start + " --seed 1");
  EXPECT_EQ(workspace_.Json(start + " --seed 1")["tokens"], one["tokens"]);
  EXPECT_NE(workspace_.Json(start + " --seed 2")["tokens"], one["tokens"]);
}

TEST_F(Run, StopsWhereTheContextEnds) {
  const auto run =
      workspace_.Json("run --threads 1 fixtures/tiny-moe --tokens 1,2,3 -n 50 --context 8 --json");
  EXPECT_EQ(run["stop"], "context");
  EXPECT_EQ(run["tokens"].size(), 6u);  // the last one needs no position
}

// This few tokens may be done before a rate can be shown.
TEST_F(Run, CountsTokensOnATerminal) {
  const std::string start = "run --threads 1 fixtures/tiny-moe --tokens 5,6,7 -n 4";
  const auto line = [](const std::string& title, int tokens) {
    return ContainsRegex(title + " +[0-9]+%  [0-9]+ of " + std::to_string(tokens) +
                         " tokens  ([0-9.,]+ tokens/s|-)");
  };
  for (const std::string& more : {std::string(), std::string(" --json"), std::string(" >text")}) {
    const ToolRun run = OnATerminal(workspace_, start + more);
    EXPECT_EQ(run.status, 0) << run.out;
    EXPECT_THAT(run.out, AllOf(ContainsRegex("loading +[0-9]+%  [0-9.]+ k?B of "),
                               line("running", 7), Not(ContainsRegex("running[^\r\n]*B/s"))));
  }
  EXPECT_THAT(OnATerminal(workspace_, start + " --compare cpu").out, line("comparing", 14));
  EXPECT_THAT(OnATerminal(workspace_, start + " --quiet").out, Not(HasSubstr("tokens/s")));
}

TEST_F(Run, DrawsNoCountIntoTheTextOnATerminal) {
  const std::string start = "run --threads 1 fixtures/tiny-moe --prompt The -n 12";
  const std::string text = workspace_.Moepack(start).out;
  std::string shown = OnATerminal(workspace_, start, "TERM=xterm").out;
  std::erase(shown, '\r');
  EXPECT_THAT(shown, HasSubstr("\033[K" + text));
}

TEST_F(Run, ShowsNoProgressInAPipe) {
  const ToolRun run = workspace_.Moepack("run fixtures/tiny-moe --tokens 5,6,7 -n 4");
  EXPECT_THAT(run.err, Not(HasSubstr("running")));
  EXPECT_THAT(run.err, Not(HasSubstr("\033")));
}

TEST_F(Run, ComparesTwoExecutorsStepByStep) {
  Split();
  const auto compared =
      workspace_.Json("run --threads 1 out --group 1 --tokens 1,2,3 -n 5 --compare cpu --json");
  EXPECT_EQ(compared["positions"], 8);
  EXPECT_EQ(compared["prompt_tokens"], 3);
  EXPECT_EQ(compared["same_bits"], true);
  EXPECT_EQ(compared["first_divergence"], nullptr);
  EXPECT_EQ(compared["passed"], true);
  const ToolRun text = workspace_.Moepack(
      "run --threads 1 out --group 1 --tokens 1,2,3 -n 5 --compare cpu --tolerance 0");
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, AllOf(StartsWith("cpu and cpu: 8 positions"), HasSubstr("none"),
                              HasSubstr("the same bits")));
}

TEST_F(Run, ListsDevicesWithoutASource) {
  const ToolRun run = workspace_.Moepack("run --list-devices");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("cpu 0: "));
}

// A file that is not a library comes first in the loader's path, so that the program finds none.
TEST_F(Run, StartsOnAMachineWithoutTheVulkanLoader) {
  for (const char* name : {"libvulkan.so.1", "libvulkan.so"}) WriteAll(workspace_ / name, "");
  ASSERT_EQ(setenv("LD_LIBRARY_PATH", workspace_.path().c_str(), 1), 0);
  const ToolRun listed = workspace_.Moepack("list-tensors fixtures/tiny-moe");
  const ToolRun devices = workspace_.Moepack("run --list-devices");
  const ToolRun run = workspace_.Moepack("run fixtures/tiny-moe --executor vulkan --prompt a");
  unsetenv("LD_LIBRARY_PATH");
  EXPECT_EQ(listed.status, 0) << listed.err;
  EXPECT_EQ(devices.status, 0) << devices.err;
  EXPECT_THAT(devices.out, HasSubstr("vulkan: no"));
  EXPECT_EQ(run.status, 7);
  EXPECT_THAT(run.err, HasSubstr("vulkan: "));
}

TEST_F(Run, UsageErrorsNameTheOption) {
  const std::string model = "fixtures/tiny-moe ";
  EXPECT_THAT(Failure(model, 2), HasSubstr("run: --prompt or --tokens is required"));
  EXPECT_THAT(Failure(model + "--prompt a --tokens 1", 2),
              HasSubstr("--prompt and --tokens cannot be used together"));
  EXPECT_THAT(Failure("--prompt a", 2), HasSubstr("run: SRC is required"));
  EXPECT_THAT(Failure(model + "--prompt ''", 2), HasSubstr("--prompt: expected a value"));
  EXPECT_THAT(Failure(model + "--tokens ' '", 2), HasSubstr("--tokens: give at least one token"));
  EXPECT_THAT(Failure(model + "--tokens 1,x", 2), HasSubstr("found \"x\""));
  EXPECT_THAT(Failure(model + "--tokens 5000", 2), HasSubstr("expected an id below 1024"));
  EXPECT_THAT(Failure(model + "--prompt a --temperature -1", 2), HasSubstr("temperature"));
  EXPECT_THAT(Failure(model + "--prompt a --top-p 7", 2), HasSubstr("top-p"));
  EXPECT_THAT(Failure(model + "--prompt a --tolerance 1", 2), HasSubstr("--compare"));
  EXPECT_THAT(Failure(model + "--prompt a --compare cpu --tolerance x", 2),
              HasSubstr("expected a number, 0 or more"));
  EXPECT_THAT(Failure(model + "--prompt a --compare cpu --temperature 1", 2), HasSubstr("greedy"));
  EXPECT_THAT(Failure(model + "--prompt a --executor abacus", 2), HasSubstr("abacus"));
  EXPECT_THAT(Failure(model + "--prompt a --compare abacus", 2), HasSubstr("abacus"));
}

TEST_F(Run, MissingInputsHaveTheirOwnStatus) {
  Split();
  EXPECT_THAT(Failure("out --group 3 --prompt a", 2), HasSubstr("group: expected 0 to 2, found 3"));
  EXPECT_THAT(Failure("fixtures/tiny-moe --group 0 --prompt a", 2), HasSubstr("group"));
  EXPECT_THAT(Failure("out --group 0 --prompt a --device 9", 7), HasSubstr("expected 0, found 9"));
  EXPECT_THAT(Failure("nowhere --prompt a", 5), HasSubstr("nowhere"));
  EXPECT_THAT(Failure("out --group 0 --tokens 1,2,3 --context 2", 2),
              HasSubstr("context of 2, found 3"));
}

TEST_F(Run, ATamperedPartIsRefusedUnlessVerificationIsOff) {
  Split("--format gguf");
  const auto path = workspace_ / "out/groups/001/experts.gguf";
  std::string bytes = ReadFile(path);
  bytes[bytes.size() - 4096] ^= 1;
  WriteAll(path, bytes);
  EXPECT_THAT(Failure("out --group 1 --prompt a", 6), HasSubstr("groups/001/experts.gguf"));
  EXPECT_EQ(workspace_.Moepack("run --threads 1 out --group 0 --prompt a -n 1").status, 0);
  EXPECT_EQ(workspace_.Moepack("run --threads 1 out --group 1 --prompt a -n 1 --no-verify").status,
            0);
}

TEST_F(Run, TracesANanInTheWeightsToItsLayerAndOperation) {
  ASSERT_EQ(workspace_.Moepack("quantize fixtures/tiny-moe -o m.gguf --recipe F32").status, 0);
  const auto listed = workspace_.Json("list-tensors m.gguf --json");
  for (const auto& tensor : listed["tensors"]) {
    if (tensor["name"] != "blk.1.ffn_norm.weight") continue;
    const auto path = workspace_ / "m.gguf";
    std::string bytes = ReadFile(path);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    std::memcpy(bytes.data() + tensor["offset"].get<size_t>(), &nan, sizeof nan);
    WriteAll(path, bytes);
  }
  EXPECT_THAT(Failure("m.gguf --tokens 1,2,3", 3),
              AllOf(HasSubstr("layer 1"), HasSubstr("norm before the MLP"), HasSubstr("nan")));
}

}  // namespace
}  // namespace moepack::cli
