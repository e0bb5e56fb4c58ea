#include "tools/base/output.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "libshard/base/text/quote.h"

namespace moepack::cli {
namespace {

TEST(Output, WrapBreaksAtSpacesAndIndentsEveryLine) {
  EXPECT_EQ(Wrap("one two three four", 2, 10), "  one two\n  three\n  four\n");
  EXPECT_EQ(Wrap("unbreakableword x", 1, 6), " unbreakableword\n x\n");
}

TEST(Output, WrapKeepsTheLinesOfTheText) { EXPECT_EQ(Wrap("a\n\nb c", 1, 9), " a\n\n b c\n"); }

TEST(Output, ScientificShowsTheMagnitude) {
  EXPECT_EQ(Scientific(0), "0");
  EXPECT_EQ(Scientific(1.25e-5), "1.25e-05");
  EXPECT_EQ(Scientific(3), "3.00e+00");
}

TEST(Output, AMessageIsOneLineWithoutTerminalControls) {
  testing::internal::CaptureStderr();
  PrintError({Code::kIo, "a\nerror: b\x1b[2J", "c\u202e"});
  PrintNotes({"d\nnote: e"});
  PrintWarnings({"\u009b31m\r"});
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "error: a\\x0aerror: b\\x1b[2J\nhint: c\\xe2\\x80\\xae\nnote: d\\x0anote: e\n"
            "warning: \\xc2\\x9b31m\\x0d\n");
}

TEST(Output, AJsonResultIsTheSameDocumentWithControlCharactersEscaped) {
  const nlohmann::json document = {{"a\u202e", "\x1b\n\u009b\U000e0041\x7f"}, {"b", "##[error]x"}};
  testing::internal::CaptureStdout();
  EXPECT_TRUE(WriteJsonText(document.dump(2) + "\n"));
  const std::string text = testing::internal::GetCapturedStdout();
  EXPECT_EQ(nlohmann::json::parse(text), document);
  EXPECT_EQ(ShownLines(text), text);
  EXPECT_EQ(text.find("##["), std::string::npos);
}

std::string Streamed(ResultStream::Kind kind, const std::vector<std::string>& pieces) {
  testing::internal::CaptureStdout();
  ResultStream out(kind);
  for (const std::string& piece : pieces) out.Append(piece);
  EXPECT_TRUE(out.Finish());
  return testing::internal::GetCapturedStdout();
}

TEST(Output, AResultInPiecesPrintsLikeTheWhole) {
  const std::string line = "\x1b[2J \u202e " + std::string(1000, 'x') + "\n";
  std::string whole;
  std::vector<std::string> pieces;
  for (int i = 0; i < 300; ++i) {
    whole += line;
    pieces.push_back(line.substr(0, 500));
    pieces.push_back(line.substr(500));
  }
  EXPECT_EQ(Streamed(ResultStream::Kind::kText, pieces), ShownLines(whole));
}

TEST(Output, ADocumentInPiecesEscapesControlCharacters) {
  const std::string item = nlohmann::json("\u009b\u202e##[x" + std::string(1000, 'x')).dump();
  std::vector<std::string> pieces = {"[\n"};
  for (int i = 0; i < 200; ++i) pieces.push_back(item + ",\n");
  pieces.push_back(item + "\n]\n");
  const std::string text = Streamed(ResultStream::Kind::kJson, pieces);
  const nlohmann::json document = nlohmann::json::parse(text);
  EXPECT_EQ(document, nlohmann::json(201, nlohmann::json::parse(item)));
  EXPECT_EQ(ShownLines(text), text);
}

}  // namespace
}  // namespace moepack::cli
