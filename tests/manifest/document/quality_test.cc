#include "manifest/document/quality.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using ::testing::HasSubstr;

QualityFigures SomeFigures(double kld) {
  QualityFigures figures{2, 100, {3.25, 0.125}, std::nullopt, std::nullopt};
  figures.split = DamageFigures{{kld, 0.01}, {kld / 2, 0.02}, {0.75, 0.03}};
  return figures;
}

QualityRecord SomeQuality() {
  QualityRecord record;
  record.tool_version = "1.2.3";
  record.executor = "cpu";
  record.precision = "bf16+f32";
  record.context = 512;
  record.tokens_sha256 = std::string(64, 'a');
  record.sessions = 2;
  record.tokens = 100;
  record.unmasked = QualityRow{{2, 100, {3, 0.125}, std::nullopt, std::nullopt}, {}};
  record.groups = {{0, {SomeFigures(0.5), {{"code", SomeFigures(0.25)}, {"", SomeFigures(1)}}}},
                   {1, {SomeFigures(0.75), {}}}};
  record.best = {SomeFigures(0.375), {}};
  return record;
}

std::string ErrorOf(const Json& document, size_t groups = 2) {
  const auto read = QualityFromJson("q", document, groups);
  return read ? "" : read.error().message;
}

TEST(QualityRecords, ReadBackFromJson) {
  const auto read = QualityFromJson("q", QualityToJson(SomeQuality()), 2);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read, SomeQuality());
}

TEST(QualityRecords, AreRoundedToSixDigits) {
  EXPECT_EQ(SixDigits(1.0 / 3), 0.333333);
  EXPECT_EQ(SixDigits(-123456789), -123457000);
  EXPECT_EQ(SixDigits(0), 0);
}

TEST(QualityRecords, NameTheFieldThatIsWrong) {
  const auto with = [](const char* place, const Json& value) {
    Json document = QualityToJson(SomeQuality());
    document[Json::json_pointer(place)] = value;
    return document;
  };
  EXPECT_THAT(ErrorOf(with("/context", "long")), HasSubstr("q: context: expected "));
  EXPECT_EQ(ErrorOf(with("/scored", "some")),
            "q: scored: expected \"all but the first\" or \"second half\", found \"some\"");
  EXPECT_THAT(ErrorOf(with("/tokens_sha256", "A")), HasSubstr("q: tokens_sha256: expected "));
  EXPECT_EQ(ErrorOf(with("/groups/1/group", 0u)),
            "q: groups[1]: group: expected ascending numbers, found 0");
  EXPECT_EQ(ErrorOf(QualityToJson(SomeQuality()), 1),
            "q: groups[1]: group: expected a number below 1, found 1");
  EXPECT_EQ(ErrorOf(with("/groups/0/buckets/0/split/top1/mean", 1.5)),
            "q: groups[0]: bucket 0: split: top1: mean: expected a number from 0 to 1, found 1.5");
  EXPECT_EQ(ErrorOf(with("/groups/0/buckets/0/bucket", std::string(257, 'b'))).substr(0, 62),
            "q: groups[0]: bucket 0: bucket: expected at most 256 bytes, fo");
  EXPECT_EQ(ErrorOf(with("/best/all/nats/error", -1)),
            "q: best: all: nats: error: expected a number from 0 to 1e+06, found -1");
  EXPECT_THAT(ErrorOf(Json(3)), HasSubstr("q: expected an object, found 3"));
}

TEST(QualityRecords, AreKnownInDistributionJson) {
  Manifest manifest = sample::Make().manifest;
  manifest.quality = SomeQuality();
  const std::string text = WriteManifest(manifest);
  const auto read = ParseManifest("x", text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->quality, manifest.quality);
  EXPECT_EQ(WriteManifest(*read), text);
  EXPECT_FALSE(read->original->contains("quality"));
}

TEST(QualityRecords, KeepOtherFieldsOfTheSection) {
  Manifest manifest = sample::Make().manifest;
  manifest.quality = SomeQuality();
  Json document = Json::parse(WriteManifest(manifest));
  document["quality"]["expected"] = {{"mean", 0.5}};
  document["quality"]["measured"]["later"] = 1;
  const auto read = ParseManifest("x", document.dump());
  ASSERT_TRUE(read) << read.error().message;
  const Json written = Json::parse(WriteManifest(*read));
  EXPECT_EQ(written["quality"]["expected"]["mean"], 0.5);
  EXPECT_EQ(written["quality"]["measured"]["later"], 1);
  EXPECT_EQ(read->quality, manifest.quality);
}

TEST(QualityRecords, AreRefusedInDistributionJsonWhenTheyAreDamaged) {
  Manifest manifest = sample::Make().manifest;
  manifest.quality = SomeQuality();
  Json document = Json::parse(WriteManifest(manifest));
  document["quality"]["measured"]["tokens"] = "many";
  const auto read = ParseManifest("x", document.dump());
  ASSERT_FALSE(read);
  EXPECT_THAT(read.error().message, HasSubstr("x: quality: measured: tokens: expected "));
}

TEST(QualityRecords, SayWhatIsKnownOfTheText) {
  QualityRecord record = SomeQuality();
  EXPECT_FALSE(QualityToJson(record).contains("made_from"));
  record.made_from = MadeFrom{1, true, std::nullopt};
  const Json document = QualityToJson(record);
  EXPECT_EQ(document["made_from"].dump(), R"({"plan":1,"refit":null})");
  EXPECT_EQ(QualityFromJson("q", document, 2).value(), record);
  record.made_from = MadeFrom{std::nullopt, false, std::nullopt};
  EXPECT_EQ(QualityFromJson("q", QualityToJson(record), 2).value(), record);
  record.made_from = MadeFrom{0, false, std::nullopt, true, 2};
  EXPECT_EQ(QualityToJson(record)["made_from"].dump(), R"({"plan":0,"calibration":2})");
  EXPECT_EQ(QualityFromJson("q", QualityToJson(record), 2).value(), record);
}

}  // namespace
}  // namespace moepack::manifest
