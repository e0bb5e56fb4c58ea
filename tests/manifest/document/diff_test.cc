#include "manifest/document/diff.h"

#include <gtest/gtest.h>

#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

std::vector<std::string> TextOf(const DiffReport& report) {
  std::vector<std::string> lines;
  for (const Change& change : report.changes) {
    lines.push_back(change.what + ": " + change.name + ": " + change.before + " -> " +
                    change.after);
  }
  return lines;
}

bool Has(const DiffReport& report, const std::string& line) {
  const std::vector<std::string> lines = TextOf(report);
  return std::find(lines.begin(), lines.end(), line) != lines.end();
}

std::string Lines(const DiffReport& report) { return moepack::Join(TextOf(report), "\n"); }

TEST(DiffTest, FindsNothingBetweenEqualDistributions) {
  const Manifest a = sample::Make().manifest;
  const DiffReport report = DiffManifests(a, a);
  EXPECT_TRUE(report.same()) << Lines(report);
  uint64_t bytes = 0;
  for (const BundleRecord& bundle : a.bundles) bytes += bundle.size;
  EXPECT_EQ(report.same_bytes, bytes);
  EXPECT_EQ(report.changed_bytes, 0u);
}

TEST(DiffTest, NamesMovedExpertsByLayer) {
  const Manifest a = sample::Make().manifest;
  Plan plan = sample::MakePlan();
  for (uint32_t layer : {1u, 2u}) {
    plan.groups[1].owned[layer] = {2, 5};
    plan.groups[2].owned[layer] = {3, 4};
  }
  const DiffReport both = DiffManifests(a, sample::Make(plan).manifest);
  EXPECT_TRUE(Has(both, "partition: layers 1-2, experts 3: group 1 -> group 2")) << Lines(both);
  EXPECT_TRUE(Has(both, "partition: layers 1-2, experts 5: group 2 -> group 1")) << Lines(both);
  plan.groups[1].owned[1] = {2, 3};
  plan.groups[2].owned[1] = {4, 5};
  const DiffReport one = DiffManifests(a, sample::Make(plan).manifest);
  EXPECT_TRUE(Has(one, "partition: layer 2, experts 3: group 1 -> group 2")) << Lines(one);
}

TEST(DiffTest, NamesFillAndRemainder) {
  const Manifest a = sample::Make().manifest;
  Plan plan = sample::MakePlan();
  plan.groups[0].fill[1] = {3};
  plan.groups[2].owned[2] = {4};
  plan.remainder[2] = {5};
  const DiffReport report = DiffManifests(a, sample::Make(plan).manifest);
  EXPECT_TRUE(Has(report, "partition: layer 1, fill of group 0: 2 -> 3")) << Lines(report);
  EXPECT_TRUE(Has(report, "partition: layer 2, experts 5: group 2 -> remainder")) << Lines(report);
}

TEST(DiffTest, NamesAChangedOverlayAndTheFilesThatStay) {
  const sample::Distribution a = sample::Make();
  Plan plan = sample::MakePlan();
  plan.overlays[0].version = "generalists-2";
  plan.overlays[0].experts_by_layer[2] = {4, 5};
  const sample::Distribution b = sample::Make(plan);
  const DiffReport report = DiffManifests(a.manifest, b.manifest);
  EXPECT_TRUE(Has(report, "overlay: version: generalists-1 -> generalists-2")) << Lines(report);
  EXPECT_TRUE(Has(report, "overlay: layer 2, experts +(4-5) -0: 0 -> 4-5")) << Lines(report);
  const uint64_t overlay = b.manifest.BytesOf(Role::kOverlay);
  EXPECT_EQ(report.changed_bytes, overlay);
  EXPECT_EQ(report.same_bytes, b.manifest.BytesOf(Role::kTrunk) + b.manifest.BytesOf(Role::kGroup));
}

TEST(DiffTest, DistinguishesNewRemovedAndChangedFiles) {
  sample::Distribution a = sample::Make(), b = sample::Make();
  a.Remove("groups/001/experts.safetensors");
  b.Remove("groups/002/experts.safetensors");
  b.manifest.assets[0].sha256 = std::string(64, '1');
  const DiffReport report = DiffManifests(a.manifest, b.manifest);
  ASSERT_EQ(report.changes.size(), 3u) << Lines(report);
  EXPECT_EQ(report.changes[0].what, "bundle");
  EXPECT_EQ(report.changes[0].name, "groups/001/experts.safetensors");
  EXPECT_EQ(report.changes[0].before, "");
  EXPECT_EQ(report.changes[1].name, "groups/002/experts.safetensors");
  EXPECT_EQ(report.changes[1].after, "");
  EXPECT_EQ(report.changes[2].what, "asset");
  EXPECT_NE(report.changes[2].before, report.changes[2].after);
}

TEST(DiffTest, MatchesTensorsByDigestAndNotByOffset) {
  const sample::Distribution a = sample::Make();
  sample::Distribution b = sample::Make();
  const std::string file = "groups/001/experts.safetensors";
  b.Remove(file);
  auto tensors = sample::ExpertTensors(b.manifest.plan, Role::kGroup, 1);
  std::swap(tensors[0], tensors[1]);  // other places, same bytes
  tensors[2].raw.bytes[0] ^= 1;
  tensors[3].raw.name = "model.layers.1.mlp.experts.3.other";
  sample::AddBundle(b, Role::kGroup, 1, tensors);
  const DiffReport report = DiffManifests(a.manifest, b.manifest);
  std::vector<std::string> names;
  for (const Change& change : report.changes) {
    if (change.what == "tensor") names.push_back(change.name);
  }
  EXPECT_EQ(names,
            (std::vector<std::string>{file + ": model.layers.1.mlp.experts.3.up_proj.weight",
                                      file + ": model.layers.1.mlp.experts.3.other",
                                      file + ": model.layers.1.mlp.experts.3.down_proj.weight"}))
      << Lines(report);
}

TEST(DiffTest, NamesWhatACalibrationChangedFieldByField) {
  const Manifest a = sample::Make().manifest;
  CalibratedRecord record;
  record.parameters = {{"context", "128"}, {"method", "feedback-2"}};
  record.calibration = {{"a.jsonl", "code", std::string(64, 'e'), 5000, {}, TakenText{4000, 2, 3}}};
  record.layers.emplace_back();
  record.layers[0].matrices = 157;
  record.layers[0].accepted = 144;
  Manifest b = a;
  b.calibrated = std::make_shared<const CalibratedRecord>(record);
  const DiffReport report = DiffManifests(a, b);
  EXPECT_TRUE(Has(report, "calibrated: matrices:  -> 144 of 157 with feedback")) << Lines(report);
  EXPECT_TRUE(Has(report, "calibrated: tokens:  -> 4,000")) << Lines(report);
  EXPECT_TRUE(Has(report, "calibrated: texts:  -> a.jsonl (code), sha256 eeeeeeeeeeeeeeee"));
  EXPECT_TRUE(Has(report, "calibrated: method:  -> feedback-2")) << Lines(report);
  record.parameters["context"] = "512";
  Manifest c = a;
  c.calibrated = std::make_shared<const CalibratedRecord>(record);
  const DiffReport longer = DiffManifests(b, c);
  ASSERT_EQ(longer.changes.size(), 1u) << Lines(longer);
  EXPECT_TRUE(Has(longer, "calibrated: context: 128 -> 512")) << Lines(longer);
}

TEST(DiffTest, NamesTheCalibrationOfASource) {
  const Manifest a = sample::Make().manifest;
  Manifest b = a;
  b.model.calibrated = CalibrationKeys{"0123456789abcdef", "feedback-2", "", 4000};
  const DiffReport report = DiffManifests(a, b);
  ASSERT_EQ(report.changes.size(), 1u) << Lines(report);
  EXPECT_TRUE(
      Has(report, "model: calibrated:  -> on 4,000 tokens, feedback-2, version 0123456789abcdef"))
      << Lines(report);
}

TEST(DiffTest, NamesAnotherModelAndItsChangedFields) {
  const Manifest a = sample::Make().manifest;
  Manifest b = a;
  b.versions.model = "fedcba9876543210";
  b.model.revision = "v2";
  b.model.scale.reset();
  b.model.source[0].header_sha256 = std::string(64, 'd');
  const DiffReport report = DiffManifests(a, b);
  EXPECT_TRUE(Has(report, "model: version: 0123456789abcdef -> fedcba9876543210"));
  EXPECT_TRUE(Has(report, "model: revision: main -> v2"));
  EXPECT_TRUE(Has(report, "model: scale: 2.5 -> "));
  EXPECT_TRUE(Has(report, "model: source model.safetensors: " + std::string(64, 'a') + " -> " +
                              std::string(64, 'd')))
      << Lines(report);
}

TEST(DiffTest, NamesAChangedPlacementTable) {
  const Manifest a = sample::Make().manifest;
  auto document = nlohmann::ordered_json::parse(WriteManifest(a));
  document["routing"]["placement"] = {{"rule", "race"}};
  const auto b = ParseManifest("b", document.dump());
  ASSERT_TRUE(b) << b.error().message;
  const DiffReport report = DiffManifests(a, *b);
  ASSERT_EQ(report.changes.size(), 1u) << Lines(report);
  EXPECT_EQ(TextOf(report)[0], "routing: placement: {\"rule\":\"hash\"} -> {\"rule\":\"race\"}");
}

TEST(DiffTest, ShowsPlacementTablesByTheirDigests) {
  Manifest a = sample::Make().manifest;
  PlacementTable table;
  table.sessions_by_group = {1, 2, 3};
  table.tokens.scale = 1;
  for (uint32_t id = 0; id < 1000; ++id) {
    table.tokens.ids.push_back(id);
    table.tokens.scores.insert(table.tokens.scores.end(), {1, 0, -1});
  }
  a.plan.placement = table;
  Manifest b = a;
  EXPECT_TRUE(DiffManifests(a, b).changes.empty());
  b.plan.placement->tokens.scores[17] = 5;
  const DiffReport report = DiffManifests(a, b);
  ASSERT_EQ(report.changes.size(), 1u) << Lines(report);
  const std::string text = TextOf(report)[0];
  EXPECT_LT(text.size(), 800u);
  EXPECT_NE(text.find("\"scores\":\"xxh3 "), std::string::npos) << text;
}

TEST(DiffTest, NamesRecipeToolVersionAndImatrix) {
  const Manifest a = sample::Make().manifest;
  Manifest b = a;
  b.tool_version = "9.9.9";
  b.recipe = {"Q4_K_M", "m.gguf", std::string(64, 'e')};
  b.command = {"another"};
  b.created = 17;
  const DiffReport report = DiffManifests(a, b);
  EXPECT_TRUE(Has(report, "tool: version: " + a.tool_version + " -> 9.9.9")) << Lines(report);
  EXPECT_TRUE(Has(report, "tool: recipe:  -> Q4_K_M")) << Lines(report);
  EXPECT_EQ(report.changes.size(), 3u) << "imatrix counts too; the command and the time do not\n"
                                       << Lines(report);
}

TEST(DiffTest, NamesCarriedSectionsAndThoseOfNewerVersions) {
  const Manifest a = sample::Make().manifest;
  auto document = nlohmann::ordered_json::parse(WriteManifest(a));
  document["quality"] = {{"kld", 0.5}};
  document["x_new"] = 1;
  document["complete"] = false;
  document["tool"]["x_steps"] = 2;
  const auto b = ParseManifest("b", document.dump());
  ASSERT_TRUE(b) << b.error().message;
  const DiffReport report = DiffManifests(a, *b);
  EXPECT_TRUE(Has(report, "other: quality:  -> {\"kld\":0.5}")) << Lines(report);
  EXPECT_TRUE(Has(report, "other: x_new:  -> 1")) << Lines(report);
  EXPECT_TRUE(Has(report, "other: complete: true -> false")) << Lines(report);
  EXPECT_TRUE(Has(report, "tool: x_steps:  -> 2")) << Lines(report);
  EXPECT_EQ(report.changes.size(), 4u) << Lines(report);
  EXPECT_TRUE(DiffManifests(*b, *b).same());
}

TEST(DiffTest, GroupsChangesInAFixedOrder) {
  Plan plan = sample::MakePlan();
  plan.overlays[0].version = "generalists-2";
  plan.scheme = "modulo";
  sample::Distribution b = sample::Make(plan);
  b.manifest.model.revision = "v2";
  b.manifest.assets.clear();
  b.Bundle("trunk/trunk.safetensors").tensors[0].xxh3 = std::string(32, '0');
  std::vector<std::string> order;
  for (const Change& change : DiffManifests(sample::Make().manifest, b.manifest).changes) {
    if (order.empty() || order.back() != change.what) order.push_back(change.what);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"model", "partition", "overlay", "bundle", "tensor",
                                             "asset"}));
}

}  // namespace
}  // namespace moepack::manifest
