#include "libshard/base/text/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace moepack {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

std::string ErrorOf(std::string_view text) {
  const Result<Json> parsed = ParseJson("x.json", text);
  if (parsed) return "";
  EXPECT_EQ(parsed.error().code, Code::kCorrupt);
  return parsed.error().message;
}

TEST(Json, KeepsTheOrderOfKeys) {
  const Result<Json> parsed = ParseJson("x.json", R"({"z": 1, "a": {"y": [true, null, "t"]}})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->dump(), R"({"z":1,"a":{"y":[true,null,"t"]}})");
}

TEST(Json, RefusesDuplicateKeys) {
  EXPECT_THAT(ErrorOf(R"({"a": 1, "b": 2, "a": 3})"), HasSubstr("duplicate key \"a\""));
}

TEST(Json, RefusesDuplicateKeysInLargeObjectsToo) {
  std::string text = "{";
  for (int i = 0; i < 100; ++i) text += "\"k" + std::to_string(i) + "\": 1, ";
  EXPECT_THAT(ErrorOf(text + R"("k99": 2})"), HasSubstr("duplicate key \"k99\""));
}

TEST(Json, AllowsOneKeyInDifferentObjects) {
  EXPECT_EQ(ErrorOf(R"([{"a": {"a": 1}}, {"a": 2}])"), "");
}

TEST(Json, RefusesIntegersBeyond64Bits) {
  EXPECT_THAT(ErrorOf("[18446744073709551616]"), HasSubstr("at most 64 bits"));
  EXPECT_THAT(ErrorOf("[-9223372036854775809]"), HasSubstr("at most 64 bits"));
  EXPECT_EQ(ErrorOf("[18446744073709551615, -9223372036854775808]"), "");
}

TEST(Json, RefusesNumbersThatAreNotFinite) {
  EXPECT_THAT(ErrorOf("[1e999]"), StartsWith("x.json: JSON: "));
  EXPECT_THAT(ErrorOf("[NaN]"), StartsWith("x.json: JSON: "));
  EXPECT_THAT(ErrorOf("[-Infinity]"), StartsWith("x.json: JSON: "));
}

TEST(Json, RefusesBadUtf8) { EXPECT_THAT(ErrorOf("[\"\xff\"]"), HasSubstr("UTF-8")); }

TEST(Json, RefusesDepthOver32WithoutCrashing) {
  EXPECT_EQ(ErrorOf(std::string(32, '[') + std::string(32, ']')), "");
  EXPECT_THAT(ErrorOf(std::string(33, '[') + std::string(33, ']')), HasSubstr("at most 32 levels"));
  EXPECT_THAT(ErrorOf(std::string(1'000'000, '[')), HasSubstr("at most 32 levels"));
}

TEST(Json, RefusesTextAfterTheDocumentAndEmptyText) {
  EXPECT_NE(ErrorOf("{} {}"), "");
  EXPECT_NE(ErrorOf(""), "");
  EXPECT_NE(ErrorOf("{\"a\": 1"), "");
}

// nlohmann's parser treats a NUL as the end of the text.
TEST(Json, SaysThatAnEmptyDocumentIsEmpty) {
  for (const char* text : {"", "\n", " \t\r\n"})
    EXPECT_EQ(ErrorOf(text), "x.json: JSON: expected a document, found an empty text");
}

TEST(Json, RefusesTextAfterANul) {
  for (const std::string_view text :
       {std::string_view("{}\0", 3), std::string_view("{}\0{\"payload\": 1}", 18),
        std::string_view("{\"a\": 1}\0\xff\xfe", 11), std::string_view("\0{}", 3),
        std::string_view("{\"a\":\0 1}", 9), std::string_view("[\"\0\"]", 5)}) {
    EXPECT_THAT(ErrorOf(text), HasSubstr("found a NUL byte")) << text.size();
  }
  EXPECT_THAT(ErrorOf(std::string_view("{} \0", 4)), HasSubstr("byte 3: expected text"));
  EXPECT_EQ(ErrorOf(R"(["\u0000"])"), "") << "an escaped NUL is ordinary text";
}

TEST(Json, RefusesAByteOrderMark) {
  EXPECT_THAT(ErrorOf("\xef\xbb\xbf{}"), HasSubstr("found a byte order mark"));
}

// Python's json also refuses each of them, except for the words NaN and Infinity.
TEST(Json, RefusesWhatPythonRefuses) {
  for (const char* text : {"{} x",
                           "{}{}",
                           "[1] 2",
                           "{},",
                           "[1,]",
                           "[,1]",
                           "{\"a\":1,}",
                           "{\"a\"}",
                           "{\"a\" 1}",
                           "{a: 1}",
                           "{1: 1}",
                           "{'a': 1}",
                           "[01]",
                           "[-01]",
                           "[00]",
                           "[+1]",
                           "[.5]",
                           "[1.]",
                           "[1.e3]",
                           "[1e]",
                           "[1e+]",
                           "[0x10]",
                           "[1_000]",
                           "[-]",
                           "[- 1]",
                           "[NaN]",
                           "[-Infinity]",
                           "[True]",
                           "[nul]",
                           "[nullx]",
                           "[\"\n\"]",
                           "[\"\t\"]",
                           "[\"\x01\"]",
                           "[\"\x1f\"]",
                           "[\"\\x41\"]",
                           "[\"\\u12\"]",
                           "[\"\\\"]",
                           "[\"",
                           "[1 2]",
                           "// no\n{}",
                           "{} /* no */",
                           "# no\n{}",
                           "\f{}",
                           "\v{}",
                           "\xc2\xa0{}",
                           "{}\xc2\xa0",
                           "\xe2\x80\xa8{}",
                           "[",
                           "]",
                           "[}",
                           " "}) {
    EXPECT_THAT(ErrorOf(text), StartsWith("x.json: JSON: ")) << text;
  }
}

TEST(Json, RefusesInvalidEscapesAndInvalidUtf8) {
  for (const char* text :
       {"[\"\\ud800\"]", "[\"\\udc00\"]", "[\"\\ud800\\ud800\"]", "[\"\\ud800x\"]", "[\"\x80\"]",
        "[\"\xc0\x80\"]", "[\"\xed\xa0\x80\"]", "[\"\xf4\x90\x80\x80\"]", "[\"\xe2\x82\"]"}) {
    EXPECT_THAT(ErrorOf(text), StartsWith("x.json: JSON: ")) << text;
  }
  EXPECT_EQ(ErrorOf("[\"\\ud83d\\ude00 \xf0\x9f\x98\x80\"]"), "");
}

TEST(Json, ErrorsNameTheDocument) { EXPECT_THAT(ErrorOf("]"), HasSubstr("x.json: JSON: ")); }

TEST(Json, IsWrittenWithScalarArraysOnOneLine) {
  const Result<Json> parsed =
      ParseJson("x", R"({"a": [1, 2], "b": {}, "c": [], "d": {"e": [{"f": "g\n"}]}})");
  ASSERT_TRUE(parsed);
  EXPECT_EQ(WriteJson(*parsed),
            "{\n  \"a\": [1, 2],\n  \"b\": {},\n  \"c\": [],\n  \"d\": {\n    \"e\": [\n      {\n"
            "        \"f\": \"g\\n\"\n      }\n    ]\n  }\n}\n");
}

TEST(Json, WrittenTextReadsBackAsTheSameDocument) {
  const Result<Json> parsed = ParseJson("x", R"({"a": [1, -2, 0.1, 1e300], "b": "\u00e9\""})");
  ASSERT_TRUE(parsed);
  const Result<Json> again = ParseJson("x", WriteJson(*parsed));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, *parsed);
}

TEST(JsonFields, SayWhatWasExpectedAndFound) {
  const Result<Json> parsed =
      ParseJson("x", R"({"n": "three", "m": -1, "o": {"k": 1}, "z": null})");
  ASSERT_TRUE(parsed);
  const JsonFields fields(*parsed, "c.json");
  EXPECT_EQ(fields.Unsigned("n").error().message,
            "c.json: n: expected a whole number, found \"three\"");
  EXPECT_EQ(fields.Unsigned("m").error().message, "c.json: m: expected a whole number, found -1");
  EXPECT_EQ(fields.String("o").error().message,
            "c.json: o: expected a string, found an object of 1 key");
  EXPECT_EQ(fields.Bool("none").error().message,
            "c.json: none: expected true or false, found nothing");
  EXPECT_EQ(fields.UnsignedOr("z", 7).value(), 7u);
  EXPECT_FALSE(fields.UnsignedOr("n", 7).has_value());
  EXPECT_FALSE(fields.Has("z"));
}

}  // namespace
}  // namespace moepack
