#include "manifest/document/unknown_fields.h"

#include <gtest/gtest.h>

#include <string>

#include "manifest/document/diff.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using nlohmann::ordered_json;

// A manifest as a later minor version might write it.
ordered_json LaterDocument() {
  ordered_json document = ordered_json::parse(WriteManifest(sample::Make().manifest));
  for (const char* place : {"", "/model", "/versions", "/partition", "/routing", "/tool",
                            "/model/source/1", "/bundles/2", "/bundles/2/tensors/3", "/assets/0"}) {
    document[ordered_json::json_pointer(place)]["later"] = {{"depth", {1, 2}}, {"text", place}};
  }
  document["stages"] = {{{"layers", "0-1"}}, {{"layers", "2"}}};
  document["calibration"] = {{"suite", "chat"}, {"tokens", 1000}};
  document["quality"] = {{"perplexity", 5.25}};
  document["routing"]["placement"] = {{"rule", "race"}, {"prefix_tokens", 64}};
  document["format_version"] = "1.3";
  return document;
}

TEST(UnknownFieldsTest, AreWrittenBackInTheirPlaces) {
  ordered_json expected = LaterDocument();
  const auto read = ParseManifest("x", expected.dump());
  ASSERT_TRUE(read) << read.error().message;
  ordered_json written = ordered_json::parse(WriteManifest(*read));
  expected["format_version"] = "1.0";
  // Compared without regard to the order of keys.
  EXPECT_EQ(nlohmann::json(written), nlohmann::json(expected));
}

TEST(UnknownFieldsTest, DoNotChangeWhenWrittenTwice) {
  const auto first = ParseManifest("x", LaterDocument().dump());
  ASSERT_TRUE(first) << first.error().message;
  const std::string text = WriteManifest(*first);
  const auto second = ParseManifest("x", text);
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_EQ(WriteManifest(*second), text);
}

TEST(UnknownFieldsTest, LeaveTheCarriedSectionsInPlace) {
  const auto read = ParseManifest("x", LaterDocument().dump());
  ASSERT_TRUE(read) << read.error().message;
  std::vector<std::string> keys;
  const ordered_json written = ordered_json::parse(WriteManifest(*read));
  for (const auto& [key, value] : written.items()) keys.push_back(key);
  EXPECT_EQ(keys,
            (std::vector<std::string>{"format", "format_version", "model", "versions", "partition",
                                      "overlays", "routing", "stages", "calibration", "quality",
                                      "complete", "bundles", "assets", "tool", "later"}));
}

TEST(UnknownFieldsTest, FollowABundleByItsFileAndATensorByItsName) {
  auto read = ParseManifest("x", LaterDocument().dump());
  ASSERT_TRUE(read) << read.error().message;
  std::reverse(read->bundles.begin(), read->bundles.end());
  std::reverse(read->bundles[2].tensors.begin(), read->bundles[2].tensors.end());
  read->bundles.erase(read->bundles.begin());
  const ordered_json written = ordered_json::parse(WriteManifest(*read));
  const ordered_json& bundle = written["bundles"][1];
  EXPECT_EQ(bundle["file"], "groups/001/experts.safetensors");
  EXPECT_TRUE(bundle.contains("later"));
  EXPECT_EQ(bundle["tensors"].size(), 5u);
  EXPECT_TRUE(bundle["tensors"][1].contains("later"));
  EXPECT_FALSE(bundle["tensors"][3].contains("later"));
}

TEST(UnknownFieldsTest, DoNotIncludeLayersSpelledAnotherWay) {
  ordered_json document = ordered_json::parse(WriteManifest(sample::Make().manifest));
  document["model"]["experts"] = {{"1", 6}, {"2", 6}};
  document["partition"]["groups"][0]["experts"] = {{"1", "0,1"}, {"2", "0-1"}};
  document["overlays"][0]["experts"] = {{"1", "0"}, {"*", "0"}};
  const auto read = ParseManifest("x", document.dump());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(WriteManifest(*read), WriteManifest(sample::Make().manifest));
}

TEST(UnknownFieldsTest, DoNotIncludeRemovedKnownFields) {
  auto read = ParseManifest("x", WriteManifest(sample::Make().manifest));
  ASSERT_TRUE(read) << read.error().message;
  read->model.scale.reset();
  read->model.source[1].sha256.clear();
  const ordered_json written = ordered_json::parse(WriteManifest(*read));
  EXPECT_FALSE(written["model"].contains("scale"));
  EXPECT_FALSE(written["model"]["source"][1].contains("sha256"));
}

TEST(UnknownFieldsTest, DoNotCarryRecordsWithoutAName) {
  const Json known = {{"list", {{{"a", 1}}}}};
  const Json document = {{"list", {{{"a", 1}, {"b", 2}}}}};
  EXPECT_TRUE(UnknownFields(document, known).empty());
  const Json named_known = {{"list", {{{"name", "x"}, {"a", 1}}}}};
  const Json named = {{"list", {{{"name", "x"}, {"a", 1}, {"b", 2}}}}};
  EXPECT_EQ(UnknownFields(named, named_known).dump(), R"({"list":[{"b":2,"name":"x"}]})");
}

// Time that grew with the square of the fields was minutes here.
TEST(UnknownFieldsTest, ManyFieldsTakeTimeInProportionToTheirNumber) {
  constexpr size_t kMany = 40000;
  ordered_json many = ordered_json::object();
  auto& fields = many.get_ref<ordered_json::object_t&>();
  for (size_t i = 0; i < kMany; ++i) fields.push_back({"later" + std::to_string(i), i});
  ordered_json document = ordered_json::parse(WriteManifest(sample::Make().manifest));
  document["calibration"] = many;
  document["quality"] = {{"later", many}};
  for (const auto& [key, value] : fields)
    document.get_ref<ordered_json::object_t&>().push_back({key, value});
  const auto read = ParseManifest("x", document.dump());
  ASSERT_TRUE(read) << read.error().message;
  const std::string text = WriteManifest(*read);
  const auto again = ParseManifest("x", text);
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_GT(again->original->size(), kMany);
  EXPECT_TRUE(DiffManifests(*read, *again).same());
}

}  // namespace
}  // namespace moepack::manifest
