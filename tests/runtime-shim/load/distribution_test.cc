// Distributions of both formats: what is loaded from them equals the checkpoint.
#include <gmock/gmock.h>

#include "libshard/convert/gguf_model.h"
#include "manifest/node/assemble.h"
#include "tests/libshard/convert/golden_listing.h"
#include "tests/runtime-shim/load/sample.h"

namespace moepack::runtime {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> Labels(const std::vector<LoadedPart>& parts) {
  std::vector<std::string> labels;
  for (const LoadedPart& part : parts) labels.push_back(part.label);
  return labels;
}

// Writes a checkpoint in which calibration has left expert 1 of each layer unquantized.
void WriteGptq(const fs::path& dir) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir, {.shards = 1}));
  const fixtures::CheckpointSpec spec = fixtures::DescribeCheckpoint("qwen3-moe");
  std::vector<fixtures::RawTensor> tensors;
  const auto add = [&](const std::string& name, const char* dtype, uint64_t rows, uint64_t columns,
                       uint64_t bytes) {
    // The same byte twice is a finite number in F16 and BF16.
    const char value = static_cast<char>(0x20 + tensors.size() % 0x18);
    tensors.push_back({name, dtype, {rows, columns}, std::string(bytes, value)});
  };
  for (const fixtures::TensorHead& tensor : spec.tensors) {
    const bool expert = tensor.name.find(".mlp.experts.") != std::string::npos;
    if (!expert || tensor.name.find(".experts.1.") != std::string::npos) {
      const char value = static_cast<char>(0x20 + tensors.size() % 0x18);
      tensors.push_back(
          {tensor.name, tensor.dtype, tensor.shape, std::string(tensor.bytes, value)});
      continue;
    }
    const uint64_t rows = tensor.shape[0], columns = tensor.shape[1];
    const std::string stem = tensor.name.substr(0, tensor.name.size() - 6);  // "weight"
    add(stem + "qweight", "I32", columns / 8, rows, columns * rows / 2);
    add(stem + "qzeros", "I32", columns / 8, rows / 8, columns / 8 * rows / 2);
    add(stem + "scales", "F16", columns / 8, rows, columns / 8 * rows * 2);
  }
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "model.safetensors", tensors));
  Json config = Json::parse(spec.config);
  config["quantization_config"] = {
      {"quant_method", "gptq"}, {"bits", 4}, {"group_size", 8}, {"desc_act", false}, {"sym", true}};
  ASSERT_TRUE(fixtures::WriteFile(dir / "config.json", config.dump()));
}

// Every set holds what the plan gives it, with the bytes of the whole model.
void ExpectPartsOf(const Weights& whole, const Weights& parts) {
  ExpectSame(TrunkOf(whole), TrunkOf(parts));
  const Slices all = ExpertsOf(whole.sets[0]);
  for (const ExpertSet& set : parts.sets) {
    SCOPED_TRACE(set.label);
    const Slices held = ExpertsOf(set);
    EXPECT_FALSE(held.empty());
    ExpectSame(Held(all, set.experts_by_layer), held);
  }
  EXPECT_EQ(whole.moe_layers, parts.moe_layers);
  for (uint32_t group = 0; group < parts.plan->groups.size(); ++group) {
    const LayerExperts eligible = EligibleExperts(parts, group, true);
    for (const auto& [layer, count] : parts.plan->layers)
      EXPECT_EQ(moepack::IdsOf(eligible, layer), Eligible(*parts.plan, group, layer));
  }
}

class LoadDistribution : public testing::Test {
 protected:
  fs::path Split(const std::string& name, SplitOptions options = {},
                 const fs::path& source = tiny::kSource) {
    WriteSplit(source, dir_ / name, options);
    return dir_ / name;
  }
  fixtures::TempDir dir_;
};

TEST_F(LoadDistribution, EveryConvertibleLayoutLoadsFromItsPartsLikeTheWhole) {
  int loaded = 0;
  for (const fixtures::Layout& layout : fixtures::AllLayouts()) {
    if (!Runs(layout.family)) continue;
    SCOPED_TRACE(layout.name);
    const fs::path source = dir_ / layout.name;
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout.name, source));
    if (!PrepareGguf(tiny::Model(source), {})) continue;
    const WeightsPtr whole = Load(source);
    for (const char* recipe : {"", "exact"}) {
      SCOPED_TRACE(recipe);
      const fs::path split = Split("split" + std::string(recipe), {.recipe = recipe}, source);
      const WeightsPtr parts = Load(split);
      ASSERT_EQ(parts->sets.size(), 3u);
      ExpectPartsOf(*whole, *parts);
      fs::remove_all(split);
    }
    fs::remove_all(source);
    ++loaded;
  }
  EXPECT_GE(loaded, 15);
}

// Scaled blocks, packed integers, MXFP4, transposed and reordered matrices, as in real checkpoints.
TEST_F(LoadDistribution, GoldenCheckpointsLoadFromTheirPartsLikeTheWhole) {
  for (const char* family : {"deepseek-v3", "kimi-k2.5", "gpt-oss", "llama-4", "qwen3.5-moe"}) {
    const fs::path source = moepack::golden::Folder(family, "config.json");
    if (source.empty()) GTEST_SKIP() << "no golden checkpoint on this machine";
    SCOPED_TRACE(family);
    const WeightsPtr whole = Load(source);
    ExpectPartsOf(*whole, *Load(Split(family, {}, source)));
    WriteGguf(source, dir_ / "gguf", "exact");
    const WeightsPtr file = Load(dir_ / "gguf/m.gguf");
    ExpectSame(TrunkOf(*file), TrunkOf(*whole));
    ExpectSame(ExpertsOf(file->sets[0]), ExpertsOf(whole->sets[0]));
    fs::remove_all(dir_ / "gguf");
  }
}

TEST_F(LoadDistribution, ExpertsOfALayerMayBeStoredInTwoForms) {
  WriteGptq(dir_ / "gptq");
  const fs::path split = Split("split", {.groups = 3}, dir_ / "gptq");
  const WeightsPtr whole = Load(dir_ / "gptq");
  const WeightsPtr parts = Load(split);
  ExpectPartsOf(*whole, *parts);
  for (uint32_t group = 0; group < 3; ++group) {
    SCOPED_TRACE(group);
    LoadOptions options;
    options.groups = {group};
    const auto alone = LoadWeights(split.string(), options);
    ASSERT_TRUE(alone) << alone.error().message;
    ExpectSame(ExpertsOf(parts->sets[group]), ExpertsOf((*alone)->sets[0]));
  }
}

TEST_F(LoadDistribution, TheTinyModelInQ8EqualsItsConversion) {
  WriteGguf(tiny::kSource, dir_ / "whole", "Q8_0");
  const fs::path split = Split("split", {.recipe = "Q8_0", .groups = 3});
  const WeightsPtr parts = Load(split);
  ExpectPartsOf(*Load(dir_ / "whole"), *parts);
  EXPECT_THAT(Labels(parts->parts),
              ElementsAre("trunk", "routers", "group 0", "group 1", "group 2", "overlay one"));
  for (const LoadedPart& part : parts->parts) EXPECT_EQ(part.mapped, part.bytes) << part.label;
  const manifest::Manifest manifest = *manifest::ReadManifest(split.string());
  EXPECT_EQ(parts->model_version, manifest.versions.model);
  EXPECT_EQ(parts->shard_version, manifest.versions.shard);
  EXPECT_EQ(parts->replica_version, manifest.versions.replica);
}

TEST_F(LoadDistribution, MapsPackedExpertsFromSafetensors) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("granite-moe", dir_ / "granite"));
  const WeightsPtr parts = Load(Split("split", {}, dir_ / "granite"));
  ASSERT_EQ(parts->parts[1].label, "group 0");
  EXPECT_GT(parts->parts[1].mapped, 0u);
}

TEST_F(LoadDistribution, LoadsOnlyTheRequestedGroups) {
  for (const char* recipe : {"", "exact"}) {
    const fs::path split = Split("split" + std::string(recipe), {.recipe = recipe, .groups = 3});
    const WeightsPtr parts = Load(split, Groups({2, 0, 2}, false));
    ASSERT_EQ(parts->sets.size(), 2u);
    EXPECT_EQ(parts->sets[0].label, "group 0");
    EXPECT_EQ(parts->FindGroup(2), &parts->sets[1]);
    EXPECT_EQ(parts->FindGroup(1), nullptr);
    EXPECT_EQ(parts->FindOverlay(), nullptr);
    EXPECT_EQ(EligibleExperts(*parts, 2, true), parts->sets[1].experts_by_layer);
    // Experts of group 1 are not needed: a node pulls only its own files.
    fs::remove_all(split / "groups/001");
    fs::remove_all(split / "overlays");
    EXPECT_EQ(Load(split, Groups({2}, false))->sets.size(), 1u);
  }
}

TEST_F(LoadDistribution, EligibleExpertsComeFromTheGroupAndTheOverlay) {
  const WeightsPtr parts = Load(Split("split", {.groups = 3, .uniform = false}));
  const Plan& plan = *parts->plan;
  EXPECT_EQ(EligibleExperts(*parts, 2, false), HeldBy(plan.groups[2]));
  EXPECT_EQ(EligibleExperts(*parts, 2, true).at(0), Eligible(plan, 2, 0));
  EXPECT_EQ(EligibleExperts(*parts, std::nullopt, false).at(1).size(), 16u);
}

TEST_F(LoadDistribution, PartsInSeveralFilesFormOneSet) {
  for (const char* recipe : {"", "exact"}) {
    const fs::path split =
        Split("split" + std::string(recipe), {.recipe = recipe, .max_part_size = 1u << 20});
    ASSERT_GT(manifest::ReadManifest(split.string())->bundles.size(), 8u);
    ExpectPartsOf(*Load(tiny::kSource), *Load(split));
  }
}

TEST_F(LoadDistribution, LoadsBiasesWithTheirExpertsAndWholeRouters) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("gpt-oss", dir_ / "gpt-oss"));
  const WeightsPtr parts = Load(Split("split", {.recipe = "exact"}, dir_ / "gpt-oss"));
  const uint64_t experts = fixtures::FindLayout("gpt-oss")->experts;
  EXPECT_EQ(parts->FindTrunk("blk.0.ffn_gate_inp.bias")->shape[0], experts);
  for (const ExpertSet& set : parts->sets)
    EXPECT_TRUE(ExpertsOf(set).contains(
        {"blk.0.ffn_down_exps.bias", static_cast<int>(set.experts_by_layer.at(0)[0])}));
  ASSERT_TRUE(fixtures::MakeCheckpoint("glm-4.5", dir_ / "glm"));
  const WeightsPtr glm = Load(Split("glm-split", {.recipe = "exact"}, dir_ / "glm"));
  EXPECT_EQ(glm->FindTrunk("blk.1.exp_probs_b.bias")->shape[0],
            fixtures::FindLayout("glm-4.5")->experts);
}

TEST_F(LoadDistribution, LayersForMultiTokenPredictionAreRemovedFromThePlanToo) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("glm-4.5", dir_ / "glm"));
  for (const char* recipe : {"", "exact"}) {
    const WeightsPtr parts =
        Load(Split("split" + std::string(recipe), {.recipe = recipe}, dir_ / "glm"));
    const uint32_t layers = fixtures::FindLayout("glm-4.5")->layers;
    EXPECT_LT(parts->plan->layers.rbegin()->first, layers);
    EXPECT_LT(parts->sets[0].experts_by_layer.rbegin()->first, layers);
    EXPECT_THAT(parts->notes, Contains(HasSubstr("multi-token prediction")));
  }
}

TEST_F(LoadDistribution, AnAssembledNodeNamesItsGroup) {
  for (const char* recipe : {"", "exact"}) {
    const fs::path split = Split("split" + std::string(recipe), {.recipe = recipe});
    const fs::path node = dir_ / ("node" + std::string(recipe));
    manifest::AssembleOptions options;
    options.group = 1;
    ASSERT_TRUE(manifest::AssembleNode(split.string(), node.string(), options));
    const WeightsPtr weights = Load(node), parts = Load(split, Groups({1}));
    EXPECT_EQ(weights->sets[0].label, "node of group 1");
    EXPECT_EQ(weights->shard_version, parts->shard_version);
    EXPECT_THAT(weights->notes, Contains(HasSubstr("moepack_node.json")));
    // Id 0 of the node is the first eligible expert, which comes from the overlay.
    const Slices of_node = ExpertsOf(weights->sets[0]), overlay = ExpertsOf(parts->sets[1]);
    EXPECT_EQ(of_node.at({"blk.0.ffn_up_exps.weight", 0}),
              overlay.at({"blk.0.ffn_up_exps.weight", 1}));
    EXPECT_EQ(weights->moe_layers.at(0), EligibleExperts(*parts, 1, true).at(0).size());
  }
}

TEST_F(LoadDistribution, LoadsAnOverlayByVersionOrTheNewestOne) {
  for (const char* recipe : {"", "exact"}) {
    const fs::path split = Split("split" + std::string(recipe),
                                 {.recipe = recipe,
                                  .overlay = R"({"version": "two", "layers": {"*": "4,9"}})",
                                  .uniform = false});
    const WeightsPtr whole = Load(tiny::kSource);
    for (const char* version : {"two", ""}) {
      LoadOptions options = Groups({0});
      options.overlay_version = version;
      const WeightsPtr parts = Load(split, options);
      const ExpertSet* overlay = parts->FindOverlay();
      ASSERT_NE(overlay, nullptr);
      EXPECT_EQ(overlay->label, "overlay two");
      EXPECT_EQ(FormatIds(overlay->experts_by_layer.at(1)), "4,9");
      ExpectSame(Held(ExpertsOf(whole->sets[0]), overlay->experts_by_layer), ExpertsOf(*overlay));
    }
  }
}

TEST_F(LoadDistribution, LoadingNeedsNoTemporaryDirectory) {
  const fs::path split = Split("split"), scratch = dir_ / "scratch";
  const char* before = std::getenv("TMPDIR");
  const std::string saved = before == nullptr ? "/tmp" : before;
  setenv("TMPDIR", scratch.c_str(), 1);
  EXPECT_EQ(Load(split)->sets.size(), 3u);
  LoadOptions wrong;
  wrong.model.config_file = (dir_ / "none.json").string();
  const Error error = Refusal(split, wrong);
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr(wrong.model.config_file));
  EXPECT_FALSE(fs::exists(scratch));
  setenv("TMPDIR", saved.c_str(), 1);
}

}  // namespace
}  // namespace moepack::runtime
