#include "libshard/stats/statistics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/base/files/zstd.h"
#include "libshard/base/text/text.h"
#include "tests/libshard/stats/sample.h"

namespace moepack {
namespace {

using ::testing::HasSubstr;

Result<Statistics> ReadBytes(const std::string& name, const std::string& bytes) {
  return ReadStatistics(MemorySource(name, bytes));
}

Error ErrorOf(const std::string& name, const std::string& bytes) {
  const auto read = ReadBytes(name, bytes);
  if (read) return {Code::kInterrupted, "was read"};
  return read.error();
}

Json DocumentOf(const Statistics& statistics) {
  return ParseJson("sample", StatisticsBytes("s.json", statistics)).value();
}

std::string Frames(const Statistics& statistics) {
  return StatisticsBytes("s.json.zst", statistics);
}

Error JsonError(const std::function<void(Json&)>& change) {
  Json document = DocumentOf(SampleStatistics());
  change(document);
  return ErrorOf("stats.json", WriteJson(document));
}

// Notes how many parts came, and refuses a session if asked to.
class CountedParts final : public StatisticsParts {
 public:
  Status Model(const ModelIdentity&) override { return Note("model"); }
  Status Session(SessionTally session) override { return Note(session.name); }
  Status Pairs(std::vector<uint64_t>) override { return Note("pairs"); }
  std::vector<std::string> parts;

 private:
  Status Note(const std::string& part) {
    parts.push_back(part);
    return Ok();
  }
};

TEST(StatisticsFile, ReadsBackBothForms) {
  for (const char* name : {"s.json", "s.json.zst"}) {
    const auto read = ReadBytes(name, StatisticsBytes(name, SampleStatistics()));
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, SampleStatistics());
  }
}

TEST(StatisticsFile, ThePiecesAreTheDocumentAsWriteJsonWritesIt) {
  for (Statistics statistics : {SampleStatistics(), EmptyStatistics(SampleModel())}) {
    const std::string text = StatisticsBytes("s.json", statistics);
    EXPECT_EQ(text, WriteJson(DocumentOf(statistics)));
    statistics.model.name = "\"quoted\" \xc3\xa4\n";
    EXPECT_EQ(StatisticsBytes("-", statistics), WriteJson(DocumentOf(statistics)));
  }
}

// What a session costs in memory is what one frame holds.
TEST(StatisticsFile, EverySessionIsAFrameAndTheFramesAreTheJson) {
  const std::string json = StatisticsBytes("s.json", SampleStatistics());
  const std::string frames = Frames(SampleStatistics());
  const MemorySource source("s.json.zst", frames);
  SourceText text(source);
  std::vector<std::string> pieces;
  for (auto piece = text.Next(); piece && !piece->empty(); piece = text.Next())
    pieces.emplace_back(*piece);
  ASSERT_EQ(pieces.size(), SampleStatistics().sessions.size() + 2);
  EXPECT_THAT(pieces[1], HasSubstr("\"a.txt\""));
  EXPECT_EQ(pieces[0] + pieces[1] + pieces[2] + pieces[3], json);
}

TEST(StatisticsFile, TheProgramZstdPrintsTheJson) {
  if (std::system("zstd --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "zstd is not installed";
  const fixtures::TempDir dir;
  ASSERT_TRUE(WriteStatistics((dir / "s.json").string(), SampleStatistics()));
  ASSERT_TRUE(WriteStatistics((dir / "s.json.zst").string(), SampleStatistics()));
  const std::string run = Cat("cd ", (dir / "").string(),
                              " && zstd -qdc s.json.zst | cmp - s.json && "
                              "zstd -q --check s.json -o theirs && zstd -qt s.json.zst");
  ASSERT_EQ(std::system(run.c_str()), 0);
  EXPECT_EQ(ReadStatistics((dir / "theirs").string()).value(), SampleStatistics());
}

TEST(StatisticsFile, TheNameDecidesTheFormAndTheBytesWhatIsRead) {
  const fixtures::TempDir dir;
  for (const char* name : {"s.json", "s.json.zst"}) {
    const std::string path = (dir.path() / name).string();
    const auto bytes = WriteStatistics(path, SampleStatistics());
    ASSERT_TRUE(bytes) << bytes.error().message;
    const std::string written = fixtures::ReadFile(path);
    EXPECT_EQ(written.size(), *bytes);
    EXPECT_EQ(IsZstd(written), std::string(name) == "s.json.zst");
    EXPECT_EQ(written, StatisticsBytes(name, SampleStatistics()));
    fs::rename(path, dir / "other");
    const auto read = ReadStatistics((dir / "other").string());
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, SampleStatistics());
  }
}

TEST(StatisticsFile, WhatIsNotReadBackIsNotWritten) {
  const fixtures::TempDir dir;
  Statistics statistics = SampleStatistics();
  statistics.sessions[1].name = "\xff";
  for (const char* name : {"s.json", "s.json.zst"}) {
    const auto written = WriteStatistics((dir / name).string(), statistics);
    ASSERT_FALSE(written);
    EXPECT_EQ(written.error().code, Code::kUnsupported);
    EXPECT_THAT(written.error().message, HasSubstr("found text that is not UTF-8"));
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST(StatisticsFile, EveryTruncatedFileIsRefused) {
  const std::string frames = Frames(SampleStatistics());
  for (size_t size = 0; size < frames.size(); ++size) {
    const Error error = ErrorOf("s.json.zst", frames.substr(0, size));
    EXPECT_EQ(error.code, Code::kCorrupt) << size;
    EXPECT_THAT(error.message, HasSubstr("s.json.zst: ")) << size;
  }
}

TEST(StatisticsFile, EveryChangedByteOfAFrameIsNoticedOrDoesNotMatter) {
  const std::string frames = Frames(SampleStatistics());
  for (size_t i = 0; i < frames.size(); ++i) {
    std::string damaged = frames;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    const auto read = ReadBytes("s.json.zst", damaged);
    if (read && *read == SampleStatistics()) continue;  // a bit of a frame's header
    ASSERT_FALSE(read) << i;
    EXPECT_THAT(read.error().message, HasSubstr("s.json.zst: ")) << i;
  }
}

TEST(StatisticsFile, TextAfterTheDocumentIsRefused) {
  ZstdWriter zstd;
  const std::string frames = Frames(SampleStatistics());
  EXPECT_THAT(ErrorOf("s.json.zst", frames + zstd.Frame("{}")).message,
              HasSubstr("s.json.zst: JSON: parse error"));
  EXPECT_THAT(ErrorOf("s.json.zst", frames + "{}").message, HasSubstr("s.json.zst: zstd frame"));
}

// As another program may sort them: the lists are read when what they are checked with is known.
TEST(StatisticsFile, TheOrderOfMembersDoesNotMatter) {
  const Json document = DocumentOf(SampleStatistics());
  std::vector<std::string> keys = {"co_selection", "format", "model", "sessions", "version"};
  do {
    Json sorted;
    for (const std::string& key : keys) sorted[key] = document[key];
    CountedParts parts;
    ASSERT_TRUE(StreamStatistics(MemorySource("s.json", WriteJson(sorted)), parts));
    ASSERT_EQ(parts.parts, (std::vector<std::string>{"model", "a.txt", "b", "pairs", "pairs"}));
  } while (std::next_permutation(keys.begin(), keys.end()));
}

TEST(StatisticsFile, MembersThatAreUnknownMissingOrOfAnotherKindAreNamed) {
  EXPECT_EQ(JsonError([](Json& json) {
              json["other"] = {{"a", {1, {{"b", 2}}}}};
            }).message,
            "was read");
  for (const char* key : {"format", "version", "model", "sessions", "co_selection"}) {
    EXPECT_THAT(JsonError([&](Json& json) { json.erase(key); }).message,
                HasSubstr(Cat("stats.json: ", key, ": expected ")));
    EXPECT_THAT(JsonError([&](Json& json) {
                  json[key] = {{"a", {1}}};
                }).message,
                HasSubstr(Cat("stats.json: ", key == std::string("model") ? "model: name" : key,
                              ": expected ")));
    EXPECT_THAT(JsonError([&](Json& json) { json[key] = -1; }).message,
                HasSubstr(Cat("stats.json: ", key, ": expected ")));
  }
}

// A few bytes of zstd can be millions of numbers.
TEST(StatisticsFile, APartWithMoreValuesThanItsModelHasIsRefused) {
  std::string text = "{\"model\": [";
  for (int i = 0; i < 600'000; ++i) text += "0,";
  ZstdWriter zstd;
  EXPECT_EQ(ErrorOf("s.zst", zstd.Frame(text)).message,
            "s.zst: model: expected at most 524288 values together, found more");
}

TEST(StatisticsFile, AnotherVersionIsUnsupported) {
  EXPECT_EQ(JsonError([](Json& json) { json["version"] = 4u; }).message,
            "stats.json: version: expected 1 to 3, found 4");
  EXPECT_EQ(JsonError([](Json& json) { json["version"] = 0u; }).code, Code::kUnsupported);
}

TEST(StatisticsFile, ReadsVersionOneWithoutTokenCounts) {
  Statistics statistics = SampleStatistics();
  statistics.sessions.pop_back();
  statistics.sessions[0].token_counts.clear();
  Json document = DocumentOf(statistics);
  document["version"] = 1u;
  const auto again = ReadBytes("old.json", WriteJson(document));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(*again, statistics);
}

TEST(StatisticsFile, InvalidTokenCountsAreRefused) {
  const std::string where = "session \"a.txt\": token_counts: ";
  const auto json_error = [](const Json& ids, const Json& counts) {
    return JsonError([&](Json& json) {
             json["sessions"][0]["token_counts"] = {{"ids", ids}, {"counts", counts}};
           })
        .message;
  };
  // As in a parsed document: numbers that are not negative are unsigned.
  const auto list = [](const std::vector<int64_t>& values) {
    Json array = Json::array();
    for (const int64_t value : values)
      array.push_back(value < 0 ? Json(value) : Json(static_cast<uint64_t>(value)));
    return array;
  };
  EXPECT_EQ(json_error(list({7, 7}), list({1, 1})),
            Cat("stats.json: ", where, "expected ascending ids, found 7 after 7"));
  EXPECT_EQ(json_error(list({7}), list({0})),
            Cat("stats.json: ", where, "id 7: expected a count of at least 1, found 0"));
  EXPECT_EQ(
      json_error(list({1, 7}), list({200, 101})),
      Cat("stats.json: ", where, "expected at most the 300 tokens of the prefill, found 301"));
  EXPECT_EQ(json_error(list({1 << 24}), list({1})),
            Cat("stats.json: ", where, "expected ids up to 16777215, found 16777216"));
  EXPECT_EQ(json_error(list({1, 7}), list({1})),
            Cat("stats.json: ", where, "counts: expected 2 numbers, found 1"));
  EXPECT_THAT(json_error(list({-1}), list({1})), HasSubstr("ids: expected numbers below 2^32"));
  EXPECT_THAT(json_error(list({1}), list({-1})), HasSubstr("counts: expected numbers below 2^32"));
}

TEST(StatisticsFile, AnotherDocumentIsRefused) {
  EXPECT_EQ(JsonError([](Json& json) { json["format"] = "other"; }).message,
            "stats.json: format: expected \"moepack-statistics\", found \"other\"");
  EXPECT_EQ(JsonError([](Json& json) { json = Json::array(); }).code, Code::kCorrupt);
}

TEST(StatisticsFile, JsonThatContradictsItselfIsRefusedByName) {
  const auto prefill = [](Json& json) -> Json& { return json["sessions"][0]["prefill"]; };
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["tokens"] = 199u; }).message,
              HasSubstr("session \"a.txt\": prefill: layer 1: expected at most as many tokens"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"][0]["count"].push_back(1); }).message,
              HasSubstr("prefill: layer 1: count: expected 4 numbers, found 5"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"][0]["count"][1] = 0.5; }).message,
              HasSubstr("prefill: layer 1: count: expected counts"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"][0]["gate_mass"][1] = -1; }).message,
              HasSubstr("expected finite sums"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"][0]["peak"][1] = 1e300; }).message,
              HasSubstr("expected finite sums"));
  EXPECT_THAT(
      JsonError([&](Json& j) { prefill(j)["layers"][0]["gate_mass"][1] = 1.7e308; }).message,
      HasSubstr("expected finite sums"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"][0]["count"][1] = 199u; }).message,
              HasSubstr("layer 1: expected counts that add up to 300 tokens x top-2"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["tokens"] = kMaxStatisticsTokens; }).message,
              HasSubstr("stats.json: tokens: expected at most 9007199254740992 in all sessions"));
  EXPECT_THAT(
      JsonError([&](Json& j) { j["co_selection"][0]["pairs"][2] = 301u; }).message,
      HasSubstr("co_selection: layer 1: expected at most 300 tokens for a pair, found 301"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"][0]["gate_mass"][0] = 1; }).message,
              HasSubstr("expected no mass without a token"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"][0]["odd_gate_mass"][1] = 92; }).message,
              HasSubstr("expected no more odd mass than mass"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"][1]["layer"] = 2u; }).message,
              HasSubstr("layer 3: layer: expected 3, found 2"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"] = Json::array(); }).message,
              HasSubstr("expected layers for its tokens, found none"));
  EXPECT_THAT(JsonError([&](Json& j) { prefill(j)["layers"].erase(1); }).message,
              HasSubstr("layers: expected 2, found 1"));
  EXPECT_THAT(JsonError([&](Json& j) { j["co_selection"].erase(1); }).message,
              HasSubstr("co_selection: expected the 2 layers of the model, found 1"));
}

TEST(StatisticsFile, ASessionNameThatComesTwiceIsRefusedByName) {
  Statistics twice = SampleStatistics();
  twice.sessions[1].name = twice.sessions[0].name;
  const std::string expected = "session \"a.txt\": expected once, found twice";
  const Error json = JsonError([](Json& j) { j["sessions"][1]["name"] = "a.txt"; });
  EXPECT_EQ(json.code, Code::kCorrupt);
  EXPECT_EQ(json.message, "stats.json: " + expected);
  EXPECT_EQ(ErrorOf("s.zst", Frames(twice)).message, "s.zst: " + expected);
}

TEST(StatisticsFile, PairsOfARepeatedOrUnknownLayerAreRefused) {
  EXPECT_THAT(JsonError([](Json& j) { j["co_selection"][1]["layer"] = 1u; }).message,
              HasSubstr("co_selection: layer 3: layer: expected 3, found 1"));
  EXPECT_THAT(JsonError([](Json& j) { j["co_selection"][1].erase("layer"); }).message,
              HasSubstr("co_selection: layer 3: layer: expected"));
  EXPECT_THAT(JsonError([](Json& j) { j["co_selection"].push_back(j["co_selection"][1]); }).message,
              HasSubstr("co_selection: expected the 2 layers of the model, found 3"));
}

TEST(StatisticsFile, AnInvalidModelIsRefused) {
  const auto layer = [](Json& json) -> Json& { return json["model"]["layers"][1]; };
  EXPECT_THAT(JsonError([](Json& j) { j["model"]["router_digest"] = "12"; }).message,
              HasSubstr("router_digest: expected 32 hexadecimal digits"));
  EXPECT_THAT(JsonError([&](Json& j) { layer(j)["layer"] = 1u; }).message,
              HasSubstr("expected ascending numbers, found 1"));
  EXPECT_THAT(JsonError([&](Json& j) { layer(j)["experts"] = 4097u; }).message,
              HasSubstr("experts: expected 1 to 4096, found 4097"));
  EXPECT_THAT(JsonError([&](Json& j) { layer(j)["top_k"] = 4u; }).message,
              HasSubstr("top_k: expected 1 to 3, found 4"));
  EXPECT_THAT(JsonError([&](Json& j) { layer(j)["experts"] = uint64_t{1} << 40; }).message,
              HasSubstr("expected a number below 2^32"));
  EXPECT_THAT(JsonError([](Json& j) { j["model"]["layers"] = Json::array(); }).message,
              HasSubstr("layers: expected 1 to"));
}

TEST(StatisticsFile, SessionsNameTheirTextsByDigest) {
  Statistics statistics = SampleStatistics();
  statistics.sessions[0].tokens_digest = "0123456789abcdef";
  EXPECT_EQ(ReadBytes("s.zst", Frames(statistics)).value(), statistics);
  const Json document = DocumentOf(statistics);
  EXPECT_EQ(document["sessions"][0]["tokens_digest"], "0123456789abcdef");
  EXPECT_FALSE(document["sessions"][1].contains("tokens_digest"));
  EXPECT_EQ(JsonError([](Json& json) { json["sessions"][0]["tokens_digest"] = "0123"; }).message,
            "stats.json: session \"a.txt\": tokens_digest: expected 16 hexadecimal digits, found "
            "\"0123\"");
}

TEST(StatisticsFile, ReadsVersionTwoWithoutDigests) {
  Statistics statistics = SampleStatistics();
  statistics.sessions.resize(1);
  Json document = DocumentOf(statistics);
  document["version"] = 2u;
  const auto read = ReadBytes("old.json", WriteJson(document));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, statistics);
}

}  // namespace
}  // namespace moepack
