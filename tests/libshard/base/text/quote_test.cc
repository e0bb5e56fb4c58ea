#include "libshard/base/text/quote.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>

#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"

namespace moepack {
namespace {

// How /bin/sh reads a word.
std::string ReadByShell(const std::string& word) {
  FILE* pipe = popen(("printf %s " + word).c_str(), "r");
  std::array<char, 4096> buffer;
  const size_t size = fread(buffer.data(), 1, buffer.size(), pipe);
  EXPECT_EQ(pclose(pipe), 0);
  return {buffer.data(), size};
}

TEST(Quote, ShownEscapesTerminalControls) {
  EXPECT_EQ(Shown("plain größe 日本 \u2070\u00a0"), "plain größe 日本 \u2070\u00a0");
  EXPECT_EQ(Shown("\x1b[31mred\r\n\x7f"), R"(\x1b[31mred\x0d\x0a\x7f)");
  EXPECT_EQ(Shown("a\u009b31m"), R"(a\xc2\x9b31m)");
  for (const char* mark : {"\u061c", "\u200e", "\u200f", "\u2028", "\u2029", "\u202a", "\u202e",
                           "\u2066", "\u2069", "\U000e0041"}) {
    const std::string shown = Shown(Cat("a", mark, "b"));
    EXPECT_TRUE(shown.starts_with("a\\x")) << shown;
    EXPECT_TRUE(HasControlCharacter(mark)) << shown;
    EXPECT_EQ(Quoted(Cat("a", mark, "b")), Cat('"', shown, '"'));
  }
}

TEST(Quote, ShownEscapesBytesThatAreNotUtf8) {
  EXPECT_EQ(Shown("\x9b"
                  "31m"),
            R"(\x9b31m)");                                      // C1 as Latin-1 has it
  EXPECT_EQ(Shown("a\xc0\x80"), R"(a\xc0\x80)");                // too long a form
  EXPECT_EQ(Shown("\xed\xa0\x80"), R"(\xed\xa0\x80)");          // a surrogate
  EXPECT_EQ(Shown("\xf4\x90\x80\x80"), R"(\xf4\x90\x80\x80)");  // beyond U+10FFFF
  EXPECT_EQ(Shown("ok \xe6\x97"), R"(ok \xe6\x97)");            // cut off
}

TEST(Quote, ShownIsIdempotent) {
  for (const char* text : {"a\\b", "\x1b", "\\x1b", "::error::x", "##[error]x", "\u202e"}) {
    EXPECT_EQ(Shown(Shown(text)), Shown(text));
  }
}

TEST(Quote, ShownLinesKeepsNewlinesAndTabs) {
  EXPECT_EQ(ShownLines("a\n\tb\r\x1b"), "a\n\tb\\x0d\\x1b");
}

TEST(Quote, ShownNeverStartsAWorkflowCommand) {
  EXPECT_EQ(Shown("::error::x"), R"(\x3a:error::x)");
  EXPECT_EQ(Shown("  ::error::x"), R"(  \x3a:error::x)");
  EXPECT_EQ(Shown("std::vector"), "std::vector");
  EXPECT_EQ(Shown("a ##[error]x ##[x"), R"(a ##\x5berror]x ##\x5bx)");
  EXPECT_EQ(Quoted("##[error]x"), R"("##\x5berror]x")");
}

TEST(Quote, QuotedCutsBetweenCharacters) {
  const std::string text = Cat(std::string(199, 'x'), "é", std::string(10, 'y'));
  EXPECT_EQ(Quoted(text), Cat('"', std::string(199, 'x'), "\"... (211 bytes)"));
}

TEST(Quote, ShellWordsAreReadBackByTheShell) {
  EXPECT_EQ(ShellWord("out-1/a.gguf"), "out-1/a.gguf");
  EXPECT_EQ(ShellWord("a b"), "'a b'");
  EXPECT_EQ(ShellWord(""), "''");
  EXPECT_EQ(ShellCommand({"moepack", "verify", "my dir"}), "moepack verify 'my dir'");
  for (const std::string text :
       {"it's", "a\"b", "$HOME `id` \\ !", "~", "*", "a\nb", "\x1b[31m'%s\\n", "größe", "a\xff",
        "\u202e", "##[x", "-n", "a;b&c|d>e", "#"}) {
    EXPECT_EQ(ReadByShell(ShellWord(text)), text);
    EXPECT_EQ(Shown(ShellWord(text)), ShellWord(text))
        << "the word has characters that a terminal acts on";
  }
}

TEST(Quote, APathThatIsAnArgumentIsNoOption) {
  EXPECT_EQ(PathArgument("-out/a"), "./-out/a");
  EXPECT_EQ(PathArgument("out-1"), "out-1");
  EXPECT_EQ(PathArgument("/-out"), "/-out");
}

TEST(Quote, MarkdownTextEscapesMarkup) {
  EXPECT_EQ(MarkdownText("Qwen/Qwen3-30B-A3B"), "Qwen/Qwen3-30B-A3B");
  EXPECT_EQ(MarkdownText("Q4_K_M"), "Q4_K_M");
  EXPECT_EQ(MarkdownText("a\n# b"), R"(a\\x0a\# b)");
  EXPECT_EQ(MarkdownText("[x](http://e) <b> `c` _d_"), R"(\[x\](http\://e) \<b\> \`c\` \_d\_)");
}

TEST(Quote, MarkdownCodeCannotBeEndedByItsText) {
  EXPECT_EQ(MarkdownCode("groups/000/experts.gguf"), "`groups/000/experts.gguf`");
  EXPECT_EQ(MarkdownCode("a`b|c``"), R"(``` a`b\|c`` ```)");
}

TEST(PlainText, IsWhatNamesAreMadeOf) {
  EXPECT_TRUE(IsPlainText(""));
  EXPECT_TRUE(IsPlainText("model.layers.0.mlp.experts.7.up_proj.weight"));
  EXPECT_TRUE(IsPlainText("[2, 3] ~'<&>/$`%"));
}

TEST(PlainText, IsNotWhatAnOutputEscapes) {
  for (const char* text : {"\x1b", "a\x7f", "\t", "a\n", "\u00e9", "\u202e", "\x9b", "a\"", "\\",
                           "::error::x", " ::x", "a ##[error]x"}) {
    EXPECT_FALSE(IsPlainText(text)) << text;
  }
}

TEST(PlainText, NeedsNoEscape) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text(3, static_cast<char>(byte));
    if (!IsPlainText(text)) continue;
    EXPECT_EQ(Shown(text), text) << byte;
    EXPECT_EQ(nlohmann::json(text).dump(), '"' + text + '"') << byte;
    EXPECT_EQ(CountCharacters(text), text.size()) << byte;
  }
}

}  // namespace

}  // namespace moepack
