#include "libshard/base/text/record.h"

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace moepack {
namespace {

struct Part {
  std::string name;
  uint64_t bytes = 0;
  bool operator==(const Part&) const = default;
};

struct Sample {
  std::string title, note;
  bool ready = true;
  uint64_t seconds = 0;
  std::optional<double> ratio;
  std::optional<uint64_t> rank;
  std::vector<std::string> words;
  Part part;
  std::optional<Part> spare;
  std::string digest;
};

Result<std::vector<std::string>> ReadWords(const JsonFields& fields, const char* name) {
  SHARD_TRY(const std::string text, fields.String(name));
  return std::vector<std::string>{text};
}

Json WordsToJson(const std::vector<std::string>& words) { return words.front(); }

constexpr Field<Part> kPartFields[] = {
    {"name", AsText<&Part::name>},
    {"bytes", As<&Part::bytes, &JsonFields::Unsigned>, Presence::kOptional},
};

constexpr Field<Sample> kDigestFields[] = {{"sha256", AsText<&Sample::digest>}};

constexpr Field<Sample> kFields[] = {
    {"title", AsText<&Sample::title>, Presence::kRequired, Proof::kNone},
    {"note", AsText<&Sample::note>, Presence::kOptional},
    {"ready", AsFlag<&Sample::ready>, Presence::kDefaulted},
    {"seconds", As<&Sample::seconds, &JsonFields::Unsigned>, Presence::kOptional},
    {"ratio", AsNumber<&Sample::ratio>, Presence::kOptional},
    {"rank", As<&Sample::rank, &JsonFields::Unsigned>, Presence::kDefaulted},
    {"words", As<&Sample::words, ReadWords, WordsToJson>, Presence::kOptional},
    {"part", AsRecord<&Sample::part, kPartFields>},
    {"spare", AsRecord<&Sample::spare, kPartFields>, Presence::kOptional},
    {"size", InMember<&Sample::part, As<&Part::bytes, &JsonFields::Unsigned>>, Presence::kOptional},
    {"digest", AsObject<kDigestFields>, Presence::kOptional},
};

TEST(RecordTest, WritesFieldsInTheOrderOfTheRowsAndOptionalOnesIfTheyAreSet) {
  Sample sample;
  sample.title = "a";
  sample.part.name = "b";
  EXPECT_EQ(ToJson(kFields, sample).dump(),
            R"({"title":"a","ready":true,"rank":null,"part":{"name":"b"}})");
  sample.note = "n";
  sample.seconds = 1;
  sample.ratio = 0.5;
  sample.rank = 0;
  sample.words = {"w"};
  sample.part.bytes = 7;
  sample.spare = Part{"s"};
  sample.digest = "d";
  EXPECT_EQ(ToJson(kFields, sample).dump(),
            R"({"title":"a","note":"n","ready":true,"seconds":1,"ratio":0.5,"rank":0,)"
            R"("words":"w","part":{"name":"b","bytes":7},"spare":{"name":"s"},"size":7,)"
            R"("digest":{"sha256":"d"}})");
}

TEST(RecordTest, LeavesOutWhatIsNotANumberInJson) {
  Sample sample;
  for (const double ratio :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    sample.ratio = ratio;
    EXPECT_FALSE(ToJson(kFields, sample).contains("ratio"));
  }
}

TEST(RecordTest, ReadsWhatItWrites) {
  const Json document = {{"title", "a"},
                         {"note", "n"},
                         {"ready", false},
                         {"seconds", 3u},
                         {"ratio", 0.5},
                         {"rank", 0u},
                         {"words", "w"},
                         {"part", {{"name", "b"}, {"bytes", 7u}}},
                         {"spare", {{"name", "s"}}},
                         {"size", 7u},
                         {"digest", {{"sha256", "d"}}}};
  const auto sample = ReadRecord(kFields, "x.json", document);
  ASSERT_TRUE(sample);
  EXPECT_EQ(ToJson(kFields, *sample), document);
}

TEST(RecordTest, KeepsTheInitialValueWhereAFieldIsAbsentOrNull) {
  const auto sample = ReadRecord(kFields, "x.json",
                                 {{"title", "a"}, {"ready", nullptr}, {"part", {{"name", "b"}}}});
  ASSERT_TRUE(sample);
  EXPECT_TRUE(sample->ready);
  EXPECT_FALSE(sample->rank);
  EXPECT_FALSE(sample->spare);
}

TEST(RecordTest, NamesTheFieldThatIsWrong) {
  const auto message = [](const Json& document) {
    const auto sample = ReadRecord(kFields, "x.json", document);
    return sample ? "" : sample.error().message;
  };
  EXPECT_EQ(message(Json::array()), "x.json: expected an object, found an array of 0 values");
  EXPECT_EQ(message(Json::object()), "x.json: title: expected a string, found nothing");
  EXPECT_EQ(message({{"title", "a"}, {"ready", 1}}),
            "x.json: ready: expected true or false, found 1");
  EXPECT_EQ(message({{"title", "a"}, {"part", 1}}), "x.json: part: expected an object, found 1");
  EXPECT_EQ(message({{"title", "a"}, {"part", Json::object()}}),
            "x.json: part: name: expected a string, found nothing");
  EXPECT_EQ(message({{"title", "a"}, {"part", {{"name", "b"}}}, {"digest", {{"sha256", 1}}}}),
            "x.json: digest: sha256: expected a string, found 1");
}

}  // namespace
}  // namespace moepack
