#include "libshard/stats/statistics_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures/temp_dir.h"
#include "libshard/base/bytes.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "tests/libshard/stats/sample.h"

namespace moepack {
namespace {

using ::testing::HasSubstr;

std::span<const std::byte> Bytes(const std::string& text) { return std::as_bytes(std::span(text)); }

// The binary with its payload changed and the header adjusted to match.
std::string WithPayload(const std::string& payload, uint32_t version = kStatisticsVersion) {
  std::string file(kStatisticsMagic);
  moepack::AppendLe(file, version);
  moepack::AppendLe(file, uint64_t{payload.size()});
  const std::string hex = moepack::Xxh3Hex(Bytes(payload));
  for (size_t i = 0; i < hex.size(); i += 2) {
    file += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return file + payload;
}

std::string Payload() { return StatisticsToBinary(SampleStatistics()).substr(36); }

moepack::Error BinaryError(const std::string& bytes) {
  const auto result = StatisticsFromBinary("stats.bin", Bytes(bytes));
  if (result) return {Code::kInterrupted, "was read"};
  return result.error();
}

moepack::Error JsonError(const std::function<void(Json&)>& change) {
  Json document = StatisticsToJson(SampleStatistics());
  change(document);
  const auto result = StatisticsFromJson("stats.json", document);
  if (result) return {Code::kInterrupted, "was read"};
  return result.error();
}

TEST(StatisticsFile, ReadsBackJson) {
  const std::string text = moepack::WriteJson(StatisticsToJson(SampleStatistics()));
  const auto document = moepack::ParseJson("stats.json", text);
  ASSERT_TRUE(document);
  const auto read = StatisticsFromJson("stats.json", *document);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, SampleStatistics());
}

TEST(StatisticsFile, ReadsBackTheBinary) {
  const auto read =
      StatisticsFromBinary("stats.bin", Bytes(StatisticsToBinary(SampleStatistics())));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, SampleStatistics());
}

TEST(StatisticsFile, TheBinaryIsLaidOutAsDocumented) {
  Statistics statistics = EmptyStatistics(SampleModel());
  statistics.model.layers = {{300, 2, 1}};
  statistics.co_selection = {{200}};
  std::string payload;
  for (const char* text : {"\4tiny", "\10qwen3moe", "\2m1", "", "", "\40"}) {
    payload += *text ? text : std::string(1, '\0');
  }
  payload += statistics.model.router_digest;
  payload += "\1\xac\2\2\1";                   // one layer: number 300, two experts, top 1
  payload += std::string(1, '\0') + "\xc8\1";  // no sessions; one pair: 200
  EXPECT_EQ(StatisticsToBinary(statistics), WithPayload(payload));
}

TEST(StatisticsFile, TheFileNameDecidesTheForm) {
  const fixtures::TempDir dir;
  for (const char* name : {"s.json", "s.bin"}) {
    const std::string path = (dir.path() / name).string();
    ASSERT_TRUE(WriteStatistics(path, SampleStatistics()));
    const auto text = moepack::ReadTextFile(path, 1 << 20);
    ASSERT_TRUE(text);
    EXPECT_EQ(text->starts_with("MOESTATS"), std::string(name) == "s.bin");
    const auto read = ReadStatistics(path);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, SampleStatistics());
  }
}

TEST(StatisticsFile, EveryTruncatedBinaryIsRefused) {
  const std::string file = StatisticsToBinary(SampleStatistics());
  for (size_t size = 0; size < file.size(); ++size) {
    EXPECT_EQ(BinaryError(file.substr(0, size)).code, Code::kCorrupt) << size;
  }
  const std::string payload = Payload();
  for (size_t size = 0; size < payload.size(); ++size) {
    EXPECT_EQ(BinaryError(WithPayload(payload.substr(0, size))).code, Code::kCorrupt) << size;
  }
}

TEST(StatisticsFile, EveryChangedByteOfTheBinaryIsNoticed) {
  const std::string file = StatisticsToBinary(SampleStatistics());
  for (size_t i = 0; i < file.size(); ++i) {
    std::string damaged = file;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x20);
    const Error error = BinaryError(damaged);
    EXPECT_EQ(error.code, i >= 8 && i < 12 ? Code::kUnsupported : Code::kCorrupt) << i;
    EXPECT_NE(error.message.find("stats.bin: "), std::string::npos) << i << error.message;
  }
}

TEST(StatisticsFile, BytesAfterTheBinaryAreRefused) {
  EXPECT_THAT(BinaryError(WithPayload(Payload() + "x")).message,
              HasSubstr("stats.bin: payload: expected nothing after the pairs"));
}

TEST(StatisticsFile, RefusesANumberOfMoreThan64Bits) {
  const std::string payload(9, '\xff');
  EXPECT_THAT(BinaryError(WithPayload(payload + "\2")).message,
              HasSubstr("expected a number of at most 64 bits"));
}

TEST(StatisticsFile, RefusesATableLargerThanItsBytesAllow) {
  std::string payload;
  for (int text = 0; text < 5; ++text) payload += '\0';
  payload += '\40' + SampleModel().router_digest;
  payload += std::string("\1\0", 2) + "\x80\x20\1";  // layer 0 with 4096 experts
  payload += std::string(1, '\0');                   // no sessions, then 8 million pairs
  EXPECT_THAT(BinaryError(WithPayload(payload)).message, HasSubstr("expected more bytes"));
}

TEST(StatisticsFile, AnotherVersionIsUnsupported) {
  std::string file = StatisticsToBinary(SampleStatistics());
  file[8] = 4;
  EXPECT_EQ(BinaryError(file).code, Code::kUnsupported);
  EXPECT_EQ(BinaryError(file).message, "stats.bin: version: expected 1 to 3, found 4");
  EXPECT_EQ(JsonError([](Json& json) { json["version"] = 4u; }).message,
            "stats.json: version: expected 1 to 3, found 4");
  EXPECT_EQ(JsonError([](Json& json) { json["version"] = 0u; }).code, Code::kUnsupported);
}

TEST(StatisticsFile, ReadsVersionOneWithoutTokenCounts) {
  Statistics statistics = SampleStatistics();
  statistics.sessions.pop_back();
  statistics.sessions[0].token_counts.clear();
  std::string payload = StatisticsToBinary(statistics).substr(36);
  // The number of token ids, 0, and the bytes of the digest, 0, stand in front of the pairs, which
  // take eleven bytes.
  payload.erase(payload.size() - 13, 2);
  const std::string file = WithPayload(payload, kFirstStatisticsVersion);
  const auto read = StatisticsFromBinary("old.bin", Bytes(file));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, statistics);
  Json document = StatisticsToJson(statistics);
  document["version"] = 1u;
  const auto again = StatisticsFromJson("old.json", document);
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
  Statistics beyond = SampleStatistics();
  beyond.sessions[0].token_counts = {{1u << 24, 1}};
  EXPECT_THAT(BinaryError(StatisticsToBinary(beyond)).message,
              HasSubstr("expected the distance to a token id"));
  beyond.sessions[0].token_counts = {{1u << 23, 1}, {(1u << 24) + 9, 1}};
  EXPECT_EQ(BinaryError(StatisticsToBinary(beyond)).message,
            Cat("stats.bin: ", where, "expected ids up to 16777215, found 16777225"));
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
  const moepack::Error json = JsonError([](Json& j) { j["sessions"][1]["name"] = "a.txt"; });
  EXPECT_EQ(json.code, Code::kCorrupt);
  EXPECT_EQ(json.message, "stats.json: " + expected);
  EXPECT_EQ(BinaryError(StatisticsToBinary(twice)).message, "stats.bin: " + expected);
  EXPECT_FALSE(CheckStatistics("made", twice));
}

// The binary cannot represent them: pairs follow each other in the order of the layers.
TEST(StatisticsFile, PairsOfARepeatedOrUnknownLayerAreRefused) {
  EXPECT_THAT(JsonError([](Json& j) { j["co_selection"][1]["layer"] = 1u; }).message,
              HasSubstr("co_selection: layer 3: layer: expected 3, found 1"));
  EXPECT_THAT(JsonError([](Json& j) { j["co_selection"][1].erase("layer"); }).message,
              HasSubstr("co_selection: layer 3: layer: expected"));
  EXPECT_THAT(JsonError([](Json& j) { j["co_selection"].push_back(j["co_selection"][1]); }).message,
              HasSubstr("co_selection: expected the 2 layers of the model, found 3"));
}

TEST(StatisticsFile, ModelLayersThatComeTwiceAreRefusedInTheBinaryToo) {
  Statistics twice = SampleStatistics();
  twice.model.layers[1].layer = twice.model.layers[0].layer;
  EXPECT_THAT(BinaryError(StatisticsToBinary(twice)).message,
              HasSubstr("model: layers: expected ascending numbers, found 1"));
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
  const auto binary = StatisticsFromBinary("s.bin", Bytes(StatisticsToBinary(statistics)));
  ASSERT_TRUE(binary) << binary.error().message;
  EXPECT_EQ(*binary, statistics);
  const Json document = StatisticsToJson(statistics);
  EXPECT_EQ(document["sessions"][0]["tokens_digest"], "0123456789abcdef");
  EXPECT_FALSE(document["sessions"][1].contains("tokens_digest"));
  EXPECT_EQ(StatisticsFromJson("s.json", document).value(), statistics);
  EXPECT_EQ(JsonError([](Json& json) { json["sessions"][0]["tokens_digest"] = "0123"; }).message,
            "stats.json: session \"a.txt\": tokens_digest: expected 16 hexadecimal digits, found "
            "\"0123\"");
}

TEST(StatisticsFile, ReadsVersionTwoWithoutDigests) {
  Statistics statistics = SampleStatistics();
  statistics.sessions.resize(1);
  std::string payload = StatisticsToBinary(statistics).substr(36);
  payload.erase(payload.size() - 12, 1);
  const auto read = StatisticsFromBinary("old.bin", Bytes(WithPayload(payload, 2)));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, statistics);
}

}  // namespace
}  // namespace moepack
