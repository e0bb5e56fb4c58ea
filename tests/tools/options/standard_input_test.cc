#include "tools/options/standard_input.h"

#include <gmock/gmock.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using testing::HasSubstr;

class StandardInput : public testing::Test {
 protected:
  StandardInput() {
    WriteAll(workspace_ / "prompt", "int main(\n");
    WriteAll(workspace_ / "ids", "5 6\n7\n");
    WriteAll(workspace_ / "text", "int main(void) { return 0; }\n");
  }
  Workspace workspace_;
};

TEST_F(StandardInput, APromptIsReadWithoutTheLineBreakAtItsEnd) {
  const auto given = workspace_.Json("run fixtures/tiny-moe -n 1 --json --prompt 'int main('");
  const auto read = workspace_.Json("run fixtures/tiny-moe -n 1 --json --prompt - <prompt");
  EXPECT_EQ(read["prompt_tokens"], given["prompt_tokens"]);
  const ToolRun none = workspace_.Moepack("run fixtures/tiny-moe --prompt - </dev/null");
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("error: --prompt: expected text, found none\n"
                                  "hint: standard input is empty\n"));
}

TEST_F(StandardInput, TokensAreReadAsFromAFile) {
  const auto given = workspace_.Json("run fixtures/tiny-moe -n 1 --json --tokens ids");
  const auto read = workspace_.Json("run fixtures/tiny-moe -n 1 --json --tokens - <ids");
  EXPECT_EQ(read["prompt_tokens"], given["prompt_tokens"]);
  const ToolRun wrong = workspace_.Moepack("run fixtures/tiny-moe --tokens - <text");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("error: standard input: --tokens: expected token ids"));
}

TEST_F(StandardInput, ATextIsASessionOfThatName) {
  const ToolRun run = workspace_.Moepack("profile fixtures/tiny-moe --text - --dry-run <text");
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\nstandard input  "));
}

TEST_F(StandardInput, JsonLinesAreASessionEachAsInAFile) {
  WriteAll(workspace_ / "two.jsonl",
           "\n{\"text\": \"int main(void)\", \"bucket\": \"c\"}\n{\"tokens\": [5, 6]}\n");
  const ToolRun read =
      workspace_.Moepack("profile fixtures/tiny-moe --text - --dry-run <two.jsonl");
  EXPECT_EQ(read.status, 0) << read.err;
  EXPECT_THAT(read.out, HasSubstr("\nstandard input:2  "));
  WriteAll(workspace_ / "chat", "{\"messages\": []}\n");
  const ToolRun chat = workspace_.Moepack("profile fixtures/tiny-moe --text - --dry-run <chat");
  EXPECT_EQ(chat.status, 3);
  EXPECT_THAT(chat.err, HasSubstr("standard input: line 1: expected \"text\", \"tokens\""));
  // A text in braces stays a text.
  for (const char* text : {"{ int i; }\n", "{\"a\": 1}\n", "{\n\"text\": \"x\"}\n"}) {
    WriteAll(workspace_ / "braces", text);
    const ToolRun run = workspace_.Moepack("profile fixtures/tiny-moe --text - --dry-run <braces");
    EXPECT_EQ(run.status, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("\nstandard input  ")) << text;
  }
}

TEST_F(StandardInput, IsReadByOneOptionOnce) {
  for (const auto& [options, named] : std::vector<std::pair<std::string, std::string>>{
           {"--text - --tokens -", "--text - and --tokens -"},
           {"--text - text -", "--text - and --text -"}}) {
    const ToolRun run = workspace_.Moepack("profile fixtures/tiny-moe " + options + " <text");
    EXPECT_EQ(run.status, 2);
    EXPECT_EQ(run.err, "error: profile: " + named +
                           " cannot be used together\n"
                           "hint: standard input can be read once: name a file for one of them\n");
  }
}

}  // namespace
}  // namespace moepack::cli
