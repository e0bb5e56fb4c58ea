#include <gtest/gtest.h>

#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using nlohmann::ordered_json;

ordered_json WrittenSample() { return ordered_json::parse(WriteManifest(sample::Make().manifest)); }

TEST(WriteManifestTest, WritesTheSectionsInTheDocumentedOrder) {
  std::vector<std::string> keys;
  const ordered_json document = WrittenSample();
  for (const auto& [key, value] : document.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"format", "format_version", "model", "versions",
                                            "partition", "overlays", "routing", "complete",
                                            "bundles", "assets", "tool"}));
}

TEST(WriteManifestTest, GivesEqualBytesForEqualManifests) {
  EXPECT_EQ(WriteManifest(sample::Make().manifest), WriteManifest(sample::Make().manifest));
}

TEST(WriteManifestTest, EndsWithOneLineFeedAndHasNoCarriageReturn) {
  const std::string text = WriteManifest(sample::Make().manifest);
  EXPECT_TRUE(text.ends_with("}\n")) << text.substr(text.size() - 20);
  EXPECT_EQ(text.find('\r'), std::string::npos);
  EXPECT_EQ(text.find(" \n"), std::string::npos);
}

TEST(WriteManifestTest, PutsEachTensorOnOneLine) {
  const std::string text = WriteManifest(sample::Make().manifest);
  const size_t start = text.find("        {\"name\": \"model.layers.2.mlp.experts.gate_up_proj\"");
  ASSERT_NE(start, std::string::npos);
  const std::string line = text.substr(start, text.find('\n', start) - start);
  EXPECT_NE(line.find("\"shape\": [3, 4, 8]"), std::string::npos) << line;
  EXPECT_NE(line.find("\"experts\": \"0-2\"}"), std::string::npos) << line;
}

TEST(WriteManifestTest, WritesAStarForEqualLayersAndNamesThemOtherwise) {
  ordered_json document = WrittenSample();
  EXPECT_EQ(document["model"]["moe_layers"].dump(), "\"1-2\"");
  EXPECT_EQ(document["model"]["experts"].dump(), R"({"*":6})");
  EXPECT_EQ(document["routing"]["top_k"].dump(), R"({"*":2})");
  Manifest manifest = sample::Make().manifest;
  manifest.model.top_k[2] = 4;
  document = ordered_json::parse(WriteManifest(manifest));
  EXPECT_EQ(document["model"]["top_k"].dump(), R"({"1":2,"2":4})");
}

TEST(WriteManifestTest, LeavesOutWhatDoesNotApply) {
  Manifest manifest = sample::Make().manifest;
  manifest.model.scale.reset();
  const ordered_json document = ordered_json::parse(WriteManifest(manifest));
  EXPECT_FALSE(document["model"].contains("scale"));
  EXPECT_FALSE(document["tool"].contains("created"));
  EXPECT_FALSE(document["bundles"][0].contains("group"));
  EXPECT_FALSE(document["bundles"][0]["tensors"][0].contains("layer"));
  EXPECT_FALSE(document["bundles"][0]["tensors"][0].contains("experts"));
  EXPECT_FALSE(document["model"]["source"][0].contains("sha256"));
  EXPECT_TRUE(document["model"]["source"][1].contains("sha256"));
}

TEST(WriteManifestTest, CarriesThePlacementTableInRouting) {
  Manifest manifest = sample::Make().manifest;
  PlacementTable table;
  table.sessions_by_group = {1, 2, 3};
  table.tokens.scale = 0.125;
  table.tokens.ids = {5, 9};
  table.tokens.scores = {1, 0, -1, 2, 2, -4};
  manifest.plan.placement = table;
  const std::string text = WriteManifest(manifest);
  auto document = nlohmann::ordered_json::parse(text);
  EXPECT_EQ(document["routing"]["placement"]["rule"], "table");
  document["routing"]["placement"]["later"] = {1, 2};
  const auto read = ParseManifest("x", document.dump());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(read->plan.placement, table);
  // Fields that a later version adds are kept.
  const auto again = nlohmann::ordered_json::parse(WriteManifest(*read));
  EXPECT_EQ(again["routing"]["placement"], document["routing"]["placement"]);
}

TEST(WriteManifestTest, WritesTheTimeOnlyWhenThereIsOne) {
  Manifest manifest = sample::Make().manifest;
  const auto tool = [&] { return ordered_json::parse(WriteManifest(manifest))["tool"]; };
  EXPECT_FALSE(tool().contains("created"));
  manifest.created = 1700000000;
  EXPECT_EQ(tool()["created"], 1700000000);
}

TEST(WriteManifestTest, ReplacesBytesThatAreNotUtf8) {
  Manifest manifest = sample::Make().manifest;
  manifest.model.id = "caf\xe9";
  const ordered_json document = ordered_json::parse(WriteManifest(manifest));
  EXPECT_EQ(document["model"]["id"], "caf\xef\xbf\xbd");
}

TEST(WriteManifestTest, WritesAManifestWithoutBundles) {
  Manifest manifest = sample::Make().manifest;
  manifest.bundles.clear();
  manifest.complete = false;
  const auto read = ParseManifest("x", WriteManifest(manifest));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(read->bundles.empty());
  EXPECT_FALSE(read->complete);
}

}  // namespace
}  // namespace moepack::manifest
