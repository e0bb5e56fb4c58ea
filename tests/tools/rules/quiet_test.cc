// With --quiet every command prints errors and one line of result, and nothing else.
#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

class Quiet : public testing::Test {
 protected:
  void ExpectOneLine(const std::string& arguments) const {
    const ToolRun run = workspace_.Moepack(arguments + " -q");
    EXPECT_EQ(run.status, 0) << arguments << "\n" << run.err;
    EXPECT_EQ(run.err, "") << arguments;
    EXPECT_THAT(run.out, testing::MatchesRegex("[^\n]+\n")) << arguments;
  }
  Workspace workspace_;
};

TEST_F(Quiet, CommandsThatLookAndPlanPrintOneLine) {
  const std::string text = " --text fixtures/texts/header.txt ";
  for (const std::string& command :
       {std::string("list-tensors fixtures/tiny-moe"),
        std::string("list-tensors fixtures/tiny-moe --summary"),
        std::string("list-tensors fixtures/tiny-moe --check"),
        "profile fixtures/tiny-moe --dry-run" + text, "profile fixtures/tiny-moe -o s.json" + text,
        std::string("statistics show s.json"), std::string("statistics merge s.json -o t.json"),
        std::string("replay fixtures/statistics/route-trace.csv --slots 2,4"),
        std::string("replay s.json --slots 2"), std::string("plan fixtures/tiny-moe --groups 3"),
        std::string("plan fixtures/tiny-moe --groups 2,3"),
        std::string("plan fixtures/tiny-moe --sweep --recipes Q8_0"),
        std::string("run --list-devices")})
    ExpectOneLine(command);
}

TEST_F(Quiet, CommandsThatWriteAndCheckPrintOneLine) {
  const std::string source = " fixtures/tiny-moe --groups 3 ";
  for (const std::string& command :
       {"build --overlay-file fixtures/tiny-overlay.json --quantize Q4_K_M -o out" + source,
        "build -o x --dry-run" + source, "shard-experts --only group:0 -o a" + source,
        "shard-experts --only trunk,assets,group:1,group:2 -o b" + source,
        std::string("join a b -o c"), "build --task 0/1 -o t" + source,
        std::string("quantize fixtures/tiny-moe --recipe Q8_0 -o q.gguf"),
        std::string("overlay out --overlay-file fixtures/tiny-overlay-2.json --version v2 -o o2"),
        std::string("assemble out --group 1 -o node"), std::string("verify out"),
        std::string("verify node"), std::string("diff out o2"), std::string("diff out out"),
        std::string("check out --group 0"),
        std::string("place out --prompt 'int main(' --rule probe"),
        std::string("eval out --tokens 5,6,7,8 --generate 0"), std::string("report out -o r.html")})
    ExpectOneLine(command);
}

TEST_F(Quiet, CommandsOfRegistriesPrintOneLine) {
  ASSERT_EQ(workspace_.Moepack("build fixtures/tiny-moe --groups 2 -o out --no-verify").status, 0);
  for (const char* command :
       {"publish out layout:m:v1", "publish out --to-dir plain", "ls layout:m",
        "inspect layout:m:v1", "copy layout:m:v1 layout:n", "tag layout:m:v1 v2",
        "tag layout:m:v2 --remove", "gc layout:m", "keygen -o key --type p256",
        "sign layout:m:v1 --key key.key", "verify layout:m:v1 --key key.pub",
        "pull layout:m:v1 --group 1 -o pulled", "sign pulled --oms --key key.key",
        "verify pulled --oms --key key.pub"})
    ExpectOneLine(command);
}

TEST_F(Quiet, DocumentsTextAndErrorsStay) {
  const ToolRun plain = workspace_.Moepack("plan fixtures/tiny-moe --groups 3 --json");
  const ToolRun quiet = workspace_.Moepack("plan fixtures/tiny-moe --groups 3 --json --force -q");
  EXPECT_EQ(quiet.out, plain.out);
  const ToolRun text = workspace_.Moepack("run fixtures/tiny-moe --tokens 5,6 -n 4 -q");
  EXPECT_EQ(text.out, workspace_.Moepack("run fixtures/tiny-moe --tokens 5,6 -n 4").out);
  EXPECT_EQ(text.err, "");
  EXPECT_THAT(workspace_.Moepack("verify nothing -q").err, testing::StartsWith("error: "));
}

// A check that failed says for what.
TEST_F(Quiet, TheFirstFindingAndTheFirstWarningStay) {
  const std::string build =
      "build fixtures/tiny-moe --groups 4 --overlay-file "
      "fixtures/tiny-overlay.json -o ";
  const ToolRun strict = workspace_.Moepack(build + "out --strict -q");
  EXPECT_EQ(strict.status, 6);
  EXPECT_THAT(strict.err,
              testing::ContainsRegex("^error: build: finished with [0-9]+ warnings?, which "
                                     "--strict does not allow; the first: [a-z ]+: [^\n]+\n$"));
  WriteAll(workspace_ / "out/assets/config.json", "{}");
  const ToolRun verify = workspace_.Moepack("verify out -q");
  EXPECT_EQ(verify.status, 6);
  EXPECT_THAT(verify.err, testing::ContainsRegex("error: out: verification failed: [^\n]+; the "
                                                 "first: [a-z0-9-]+: assets/config.json: "));
  const ToolRun loud = workspace_.Moepack("verify out");
  EXPECT_THAT(loud.err, testing::Not(testing::HasSubstr("the first: ")));
  const auto config = workspace_ / "fixtures/tiny-moe/config.json";
  std::filesystem::permissions(config, std::filesystem::perms::owner_write,
                               std::filesystem::perm_options::add);
  auto bent = nlohmann::json::parse(ReadFile(config));
  bent["num_hidden_layers"] = 4;
  WriteAll(config, bent.dump());
  const ToolRun check = workspace_.Moepack("list-tensors fixtures/tiny-moe --check -q");
  EXPECT_EQ(check.status, 3);
  EXPECT_EQ(check.out,
            "1 finding; the first: missing: layer 3: all tensors: expected 4 layers "
            "(num_hidden_layers), found 3\n");
}

}  // namespace
}  // namespace moepack::cli
