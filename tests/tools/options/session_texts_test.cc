#include "tools/options/session_texts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Uses bytes as ids.
Result<std::vector<uint32_t>> Bytes(std::string_view text) {
  return std::vector<uint32_t>(text.begin(), text.end());
}

class SessionTexts : public ::testing::Test {
 protected:
  std::string File(const std::string& name, const std::string& text) {
    WriteAll(dir_.path() / name, text);
    return (dir_.path() / name).string();
  }
  Result<std::vector<TokenSession>> Read(const TextArguments& arguments) {
    return ReadSessions(arguments, 1000, Bytes);
  }
  Error TextError(const std::string& name, const std::string& text) {
    const auto sessions = Read({{File(name, text)}, {}, ""});
    return sessions ? Error{Code::kInterrupted, "was read"} : sessions.error();
  }
  Error TokensError(const std::string& text) {
    const auto sessions = Read({{}, {File("ids.txt", text)}, ""});
    return sessions ? Error{Code::kInterrupted, "was read"} : sessions.error();
  }

  fixtures::TempDir dir_;
};

TEST_F(SessionTexts, ATextFileIsOneSession) {
  const auto sessions = Read({{File("a.txt", "hi\n")}, {}, "chat"});
  ASSERT_TRUE(sessions);
  ASSERT_EQ(sessions->size(), 1u);
  EXPECT_EQ((*sessions)[0].name, "a.txt");
  EXPECT_EQ((*sessions)[0].bucket, "chat");
  EXPECT_THAT((*sessions)[0].tokens, ElementsAre('h', 'i', '\n'));
}

TEST_F(SessionTexts, EveryLineOfJsonlIsASession) {
  const auto sessions =
      Read({{File("a.jsonl",
                  "{\"text\": \"x\"}\n\n"
                  "{\"tokens\": [3, 4], \"session\": \"s\", \"bucket\": \"math\"}")},
            {},
            "chat"});
  ASSERT_TRUE(sessions) << sessions.error().message;
  ASSERT_EQ(sessions->size(), 2u);
  EXPECT_EQ((*sessions)[0].name, "a.jsonl:1");
  EXPECT_EQ((*sessions)[0].bucket, "chat");
  EXPECT_EQ((*sessions)[1].name, "s");
  EXPECT_EQ((*sessions)[1].bucket, "math");
  EXPECT_THAT((*sessions)[1].tokens, ElementsAre(3, 4));
}

TEST_F(SessionTexts, ReadsIdsSeparatedBySpacesOrInArrays) {
  const auto sessions =
      Read({{}, {File("a.txt", " 1 2\n3\t"), File("b.txt", "[4, 5]\n[6]\n")}, ""});
  ASSERT_TRUE(sessions) << sessions.error().message;
  ASSERT_EQ(sessions->size(), 3u);
  EXPECT_THAT((*sessions)[0].tokens, ElementsAre(1, 2, 3));
  EXPECT_THAT((*sessions)[1].tokens, ElementsAre(4, 5));
  EXPECT_EQ((*sessions)[2].name, "b.txt:2");
}

TEST_F(SessionTexts, IdsOutsideTheVocabularyAreRefused) {
  EXPECT_THAT(TokensError("1 1000").message,
              HasSubstr("ids.txt: token: expected an id below 1000, found \"1000\""));
  EXPECT_THAT(TokensError("1 -2").message, HasSubstr("found \"-2\""));
  EXPECT_THAT(TokensError("[1, 1000]").message,
              HasSubstr("line 1: token: expected an id below 1000, found 1000"));
  EXPECT_THAT(TokensError("[1, \"2\"]").message, HasSubstr("found \"2\""));
  EXPECT_EQ(TokensError("[1, 2.5]").code, Code::kCorrupt);
  EXPECT_EQ(TokensError("1 1000").code, Code::kCorrupt);
}

TEST_F(SessionTexts, LinesThatAreNotSessionsAreRefusedByNumber) {
  EXPECT_THAT(TextError("a.jsonl", "{\"text\": \"x\"}\n{\"text\": 1}\n").message,
              HasSubstr("a.jsonl: line 2: text: expected"));
  EXPECT_THAT(TextError("a.jsonl", "7").message,
              HasSubstr("line 1: expected an object or an array of ids, found 7"));
  EXPECT_EQ(TextError("a.jsonl", "{").code, Code::kCorrupt);
  EXPECT_THAT(
      TextError("a.jsonl", "{\"text\": \"x\"}\n{\"text\": \"y\", \"buket\": \"a\"}").message,
      HasSubstr("a.jsonl: line 2: expected \"text\", \"tokens\", \"session\" or "
                "\"bucket\", found \"buket\""));
  EXPECT_THAT(TextError("a.jsonl", "{\"text\": \"x\", \"tokens\": [1]}").message,
              HasSubstr("line 1: expected \"text\" or \"tokens\", found both"));
}

TEST_F(SessionTexts, SkipsAByteOrderMark) {
  const auto sessions = Read({{File("a.txt", "\xef\xbb\xbfhi"), File("b.jsonl", "\xef\xbb\xbf[7]")},
                              {File("c.txt",
                                    "\xef\xbb\xbf"
                                    "8 9")},
                              ""});
  ASSERT_TRUE(sessions) << sessions.error().message;
  EXPECT_THAT((*sessions)[0].tokens, ElementsAre('h', 'i'));
  EXPECT_THAT((*sessions)[1].tokens, ElementsAre(7));
  EXPECT_THAT((*sessions)[2].tokens, ElementsAre(8, 9));
}

TEST_F(SessionTexts, DistinguishesFilesOfOneNameByTheirPaths) {
  std::filesystem::create_directory(dir_.path() / "b");
  const std::string outer = File("a.txt", "x"), inner = File("b/a.txt", "y");
  const auto sessions = Read({{outer, inner}, {}, ""});
  ASSERT_TRUE(sessions) << sessions.error().message;
  EXPECT_EQ((*sessions)[0].name, outer);
  EXPECT_EQ((*sessions)[1].name, inner);
  const auto twice = Read({{outer, outer}, {}, ""});
  ASSERT_FALSE(twice);
  EXPECT_THAT(twice.error().message, HasSubstr("expected a name of its own"));
}

TEST_F(SessionTexts, SessionsNeedTokensAndUniqueNames) {
  EXPECT_THAT(TextError("a.txt", "").message, HasSubstr("expected tokens, found none"));
  EXPECT_THAT(TokensError("[]").message, HasSubstr("line 1: session: expected tokens, found none"));
  const std::string twice = "{\"text\": \"x\", \"session\": \"s\"}\n";
  EXPECT_THAT(TextError("a.jsonl", twice + twice).message,
              HasSubstr("line 2: session: expected a name of its own, found \"s\" a second time"));
  EXPECT_THAT(TextError("a.jsonl", "{\"text\": \"x\", \"session\": \"\\u001b[2J\"}").message,
              HasSubstr("session: expected a name in UTF-8 without control characters"));
}

TEST_F(SessionTexts, TextThatIsNotUtf8IsRefused) {
  EXPECT_THAT(TextError("a.txt", "\xff").message,
              HasSubstr("a.txt: text: expected UTF-8, found other bytes"));
}

// JSON of statistics and reports is UTF-8: this is checked before anything runs, not when they are
// written.
TEST_F(SessionTexts, RefusesNamesThatAreNotUtf8WhenReadingThem) {
  const std::string expected = "session: expected a name in UTF-8 without control characters";
  EXPECT_THAT(TextError("caf\xe9.txt", "x").message, HasSubstr(expected));
  EXPECT_THAT(TextError("caf\xe9.jsonl", "[1, 2]").message, HasSubstr(expected));
  const auto ids = Read({{}, {File("\xff.txt", "1 2")}, ""});
  ASSERT_FALSE(ids);
  EXPECT_THAT(ids.error().message, HasSubstr(expected));
  const auto bucket = Read({{File("a.txt", "x")}, {}, "\xff"});
  ASSERT_FALSE(bucket);
  EXPECT_THAT(bucket.error().message, HasSubstr("bucket: expected a name in UTF-8"));
}

TEST_F(SessionTexts, AcceptsTokensAsIdsOrAFileOfIds) {
  const auto sessions = Read({{}, {"1,2", File("ids.txt", "3 4"), "5"}, "chat"});
  ASSERT_TRUE(sessions) << sessions.error().message;
  EXPECT_THAT((*sessions)[0].tokens, ElementsAre(1, 2));
  EXPECT_EQ((*sessions)[0].name, "tokens 1");
  EXPECT_EQ((*sessions)[0].bucket, "chat");
  EXPECT_THAT((*sessions)[1].tokens, ElementsAre(3, 4));
  EXPECT_THAT((*sessions)[2].tokens, ElementsAre(5));
  EXPECT_EQ((*sessions)[2].name, "tokens 2");
  const auto large = Read({{}, {"4000000000"}, ""});
  ASSERT_FALSE(large);
  EXPECT_THAT(large.error().message, HasSubstr("--tokens: token: expected an id below"));
  EXPECT_EQ(large.error().code, Code::kInvalidArgument);
}

TEST_F(SessionTexts, RequiresTextsOrTokens) {
  const auto sessions = Read({});
  ASSERT_FALSE(sessions);
  EXPECT_EQ(sessions.error().code, Code::kInvalidArgument);
  EXPECT_EQ(sessions.error().message, "--text or --tokens is required");
  const auto missing = Read({{(dir_.path() / "nothing").string()}, {}, ""});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, Code::kNotFound);
}

}  // namespace
}  // namespace moepack::cli
