#include "manifest/assemble.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "fixtures/generator.h"
#include "manifest/verify.h"
#include "tests/manifest/tiny_distribution.h"

namespace manifest {
namespace {

namespace fs = std::filesystem;
using shard::Code;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kTrunkBundle = "trunk/trunk.safetensors";
constexpr const char* kGroup0 = "groups/000/experts.safetensors";
constexpr const char* kOverlayBundle = "overlays/one/experts.safetensors";

// Small generated checkpoints, split in two, with one expert of every layer replicated.
class AssembleNodeTest : public testing::Test {
 protected:
  void Split(const std::string& layout, const std::vector<std::string>& parts = {},
             bool uniform = true) {
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, dir_ / "source"));
    fixtures::WriteFile(dir_ / "overlay.json", R"({"version": "one", "layers": {"*": "1"}})");
    const shard::MoeModel model = tiny::Model(dir_ / "source");
    shard::PlanOptions options;
    options.groups = 2;
    options.overlay_file = (dir_ / "overlay.json").string();
    options.uniform = uniform;
    const auto report = WriteDistribution(model, tiny::Plan(model, options),
                                          (dir_ / "dist").string(), tiny::Only(parts));
    ASSERT_TRUE(report) << report.error().message;
  }
  Result<AssembleReport> Assemble(const AssembleOptions& options = {}) {
    return AssembleNode((dir_ / "dist").string(), (dir_ / "node").string(), options);
  }
  shard::Error Refusal(const AssembleOptions& options = {}) {
    const auto before = tiny::Tree(dir_.path());
    const auto report = Assemble(options);
    EXPECT_FALSE(report);
    EXPECT_EQ(tiny::Tree(dir_.path()), before);
    return report ? shard::Error{Code::kIo, ""} : report.error();
  }
  // Changes the manifest as `edit` says; files stay.
  template <class Edit>
  void EditManifest(const Edit& edit) {
    Manifest manifest = *ReadManifest((dir_ / "dist").string());
    edit(manifest);
    fixtures::WriteFile(dir_ / "dist/distribution.json", WriteManifest(manifest));
  }
  // Flips one bit of the file at `offset`.
  void Damage(const std::string& file, uint64_t offset) {
    std::string bytes = sample::ReadFile(dir_ / "dist" / file);
    ASSERT_LT(offset, bytes.size());
    bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
    fixtures::WriteFile(dir_ / "dist" / file, bytes);
  }
  TensorRecord Tensor(const std::string& file, const std::string& part_of_name) {
    const Manifest manifest = *ReadManifest((dir_ / "dist").string());
    for (const TensorRecord& tensor : manifest.FindBundle(file)->tensors) {
      if (tensor.name.find(part_of_name) != std::string::npos) return tensor;
    }
    ADD_FAILURE() << "no tensor " << part_of_name << " in " << file;
    return {};
  }

  fixtures::TempDir dir_;
};

TEST_F(AssembleNodeTest, WritesAModelDirectoryWithAnIndexAndANodeFile) {
  Split("qwen3-moe");
  const auto report = Assemble({.group = 1});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->experts, 4u);
  EXPECT_THAT(report->notes, IsEmpty());
  EXPECT_THAT(tiny::Names(dir_ / "node"),
              ElementsAre("config.json", "generation_config.json",
                          "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json", "moepack_node.json", "tokenizer.json"));
  EXPECT_FALSE(fs::exists(dir_ / "node.partial"));
  EXPECT_EQ(sample::ReadFile(dir_ / "node/tokenizer.json"),
            sample::ReadFile(dir_ / "source/tokenizer.json"));
  const shard::MoeModel node = tiny::Model(dir_ / "node");
  EXPECT_THAT(node.warnings(), IsEmpty());
  EXPECT_THAT(node.checkpoint().warnings(), IsEmpty());
  EXPECT_EQ(node.max_experts(), 4u);
}

TEST_F(AssembleNodeTest, TheNodeFileSaysWhichExpertEachIdStandsFor) {
  Split("qwen3-moe");
  ASSERT_TRUE(Assemble({.group = 1}));
  const Manifest manifest = *ReadManifest((dir_ / "dist").string());
  const auto node = nlohmann::json::parse(sample::ReadFile(dir_ / "node/moepack_node.json"));
  EXPECT_EQ(node["format"], "moepack-node");
  EXPECT_EQ(node["format_version"], "1.0");
  EXPECT_EQ(node["group"], 1);
  EXPECT_EQ(node["versions"]["model"], manifest.versions.model);
  EXPECT_EQ(node["versions"]["shard"], manifest.versions.shard);
  EXPECT_EQ(node["versions"]["replica"], manifest.versions.replica);
  EXPECT_EQ(node["experts"], nlohmann::json({{"*", "1,3-5"}}));
}

TEST_F(AssembleNodeTest, TwoRunsGiveTheSameDirectory) {
  Split("granite-moe");
  ASSERT_TRUE(Assemble());
  const auto first = tiny::Tree(dir_ / "node");
  ASSERT_TRUE(Assemble({.force = true}));
  EXPECT_EQ(tiny::Tree(dir_ / "node"), first);
}

TEST_F(AssembleNodeTest, ADryRunWritesNothingAndKnowsEverySize) {
  Split("qwen3-moe");
  const auto before = tiny::Tree(dir_.path());
  const auto dry = Assemble({.dry_run = true});
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_EQ(tiny::Tree(dir_.path()), before);
  ASSERT_TRUE(Assemble());
  uint64_t total = 0;
  for (const AssembleReport::File& file : dry->files) {
    EXPECT_EQ(fs::file_size(dir_ / "node" / file.name), file.bytes) << file.name;
    total += file.bytes;
  }
  EXPECT_EQ(dry->files.size(), 2u + 3u);
  EXPECT_EQ(dry->total_bytes(), total);
}

TEST_F(AssembleNodeTest, ADryRunDoesNotMindAnExistingOutput) {
  Split("qwen3-moe");
  fs::create_directory(dir_ / "node");
  EXPECT_TRUE(Assemble({.dry_run = true}));
}

TEST_F(AssembleNodeTest, RoutingGroupsThatAreCutAreNoted) {
  Split("deepseek-v3");
  const auto report = Assemble();
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->notes.size(), 1u);
  EXPECT_THAT(report->notes[0], HasSubstr("n_group and topk_group are now 1"));
  EXPECT_EQ(nlohmann::json::parse(sample::ReadFile(dir_ / "node/config.json"))["n_group"], 1);
}

TEST_F(AssembleNodeTest, AGroupOutOfRangeIsRefused) {
  Split("qwen3-moe");
  const shard::Error error = Refusal({.group = 2});
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("group: expected 0 to 1, found 2"));
}

TEST_F(AssembleNodeTest, MissingPartsAreNamed) {
  Split("qwen3-moe", {"assets"});
  struct Step {
    const char *missing, *part;
  };
  const shard::MoeModel model = tiny::Model(dir_ / "source");
  const shard::Plan plan = ReadManifest((dir_ / "dist").string())->plan;
  for (const Step& step :
       {Step{"trunk", "trunk"}, Step{"group 0", "group:0"}, Step{"overlay", "overlay"}}) {
    const shard::Error error = Refusal();
    EXPECT_EQ(error.code, Code::kNotFound);
    EXPECT_THAT(error.message,
                HasSubstr(shard::Cat(step.missing, ": expected a file in the manifest")));
    EXPECT_THAT(error.hint, HasSubstr("--only"));
    ASSERT_TRUE(WriteDistribution(model, plan, (dir_ / "dist").string(), tiny::Only({step.part})));
  }
  EXPECT_TRUE(Assemble());  // group 1 is not needed
}

TEST_F(AssembleNodeTest, AFileThatIsGoneIsNotFound) {
  Split("qwen3-moe");
  fs::remove(dir_ / "dist" / kOverlayBundle);
  const shard::Error error = Refusal();
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr(kOverlayBundle));
}

TEST_F(AssembleNodeTest, WithoutAConfigThereIsNoModelDirectory) {
  Split("qwen3-moe", {"trunk", "group:0", "overlay"});
  const shard::Error missing = Refusal();
  EXPECT_EQ(missing.code, Code::kNotFound);
  EXPECT_THAT(missing.message, HasSubstr("assets/config.json: expected it in the manifest"));
}

TEST_F(AssembleNodeTest, AConfigOrTokenizerThatIsNotTheOneOfTheManifestIsAMismatch) {
  Split("qwen3-moe");
  Damage("assets/tokenizer.json", 3);
  const shard::Error tokenizer = Refusal();
  EXPECT_EQ(tokenizer.code, Code::kMismatch);
  EXPECT_THAT(tokenizer.message, HasSubstr("assets/tokenizer.json: sha256: expected "));

  const std::string config = sample::ReadFile(dir_ / "dist/assets/config.json");
  fixtures::WriteFile(dir_ / "dist/assets/config.json", config + "\n");
  const shard::Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("assets/config.json: sha256: expected "));
}

TEST_F(AssembleNodeTest, AnAssetThatIsNotBelowAssetsIsCorrupt) {
  Split("qwen3-moe");
  EditManifest([](Manifest& manifest) { manifest.assets[2].file = "x"; });
  const shard::Error error = Refusal();
  EXPECT_EQ(error.code, Code::kCorrupt);
  EXPECT_THAT(error.message, HasSubstr("asset \"x\": expected a file below assets/"));
}

TEST_F(AssembleNodeTest, LayersWithDifferentCountsAreUnsupported) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "source"));
  fixtures::WriteFile(dir_ / "groups.json",
                      R"({"groups": [{"*": "0-2", "1": "0-3"}, {"*": "3-5", "1": "4-5"}]})");
  const shard::MoeModel model = tiny::Model(dir_ / "source");
  shard::PlanOptions options;
  options.partition = "explicit:" + (dir_ / "groups.json").string();
  options.uniform = false;
  ASSERT_TRUE(
      WriteDistribution(model, tiny::Plan(model, options), (dir_ / "dist").string(), tiny::Only()));
  const shard::Error error = Refusal();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("eligible experts in layer 1 as in layer 0 (3), found 4"));
  EXPECT_THAT(error.hint, HasSubstr("--uniform"));
}

// Groups may differ from each other: a node is one group.
TEST_F(AssembleNodeTest, GroupsOfDifferentSizesAreFine) {
  Split("qwen3-moe", {}, false);
  const auto small = Assemble({.group = 0});
  const auto large = Assemble({.group = 1, .force = true});
  ASSERT_TRUE(small && large);
  EXPECT_EQ(small->experts, 3u);
  EXPECT_EQ(large->experts, 4u);
}

TEST_F(AssembleNodeTest, AHashRoutingTableIsUnsupported) {
  Split("deepseek-v4");
  const shard::Error error = Refusal();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("tid2eid"));
  EXPECT_THAT(error.message, HasSubstr("found a table that gives tokens fixed experts"));
}

TEST_F(AssembleNodeTest, ADamagedByteOfATensorThatIsCopiedWholeIsAMismatch) {
  Split("qwen3-moe");
  for (const auto& [file, part_of_name] : {std::pair(kTrunkBundle, "embed_tokens"),
                                           {kGroup0, "experts.2."},
                                           {kOverlayBundle, "experts.1."}}) {
    // The overlay's expert 1 is group 0's as well and comes from there.
    const uint32_t group = std::string(file) == kOverlayBundle ? 1 : 0;
    const TensorRecord tensor = Tensor(file, part_of_name);
    Damage(file, tensor.offset + tensor.bytes / 2);
    const shard::Error error = Refusal({.group = group});
    EXPECT_EQ(error.code, Code::kMismatch) << file;
    EXPECT_THAT(error.message, HasSubstr(file));
    EXPECT_THAT(error.message, HasSubstr(shard::Cat(tensor.name, "\": xxh3-128: expected ",
                                                    tensor.xxh3, ", found ")));
    EXPECT_THAT(error.hint, HasSubstr("moepack verify"));
    Damage(file, tensor.offset + tensor.bytes / 2);
  }
  EXPECT_TRUE(Assemble());
}

TEST_F(AssembleNodeTest, AHeaderThatDisagreesWithTheManifestIsAMismatch) {
  Split("qwen3-moe");
  const std::string original = sample::ReadFile(dir_ / "dist/distribution.json");
  using Edit = void (*)(std::vector<TensorRecord>&);
  for (const Edit edit :
       {Edit([](auto& tensors) { tensors[0].name += "x"; }),
        Edit([](auto& tensors) { std::swap(tensors[0].shape[0], tensors[0].shape[1]); }),
        Edit([](auto& tensors) { tensors[0].dtype = "F16"; }),
        Edit([](auto& tensors) { tensors.pop_back(); })}) {
    EditManifest([&](Manifest& manifest) { edit(manifest.bundles[0].tensors); });
    const shard::Error error = Refusal();
    EXPECT_EQ(error.code, Code::kMismatch) << error.message;
    EXPECT_THAT(error.message, HasSubstr("expected as the manifest says, found otherwise"));
    EXPECT_THAT(error.message, HasSubstr(kTrunkBundle));
    fixtures::WriteFile(dir_ / "dist/distribution.json", original);
  }
}

TEST_F(AssembleNodeTest, AFileThatIsNoSafetensorsFileIsCorrupt) {
  Split("qwen3-moe");
  fixtures::WriteFile(dir_ / "dist" / kGroup0, "not weights at all");
  EXPECT_EQ(Refusal().code, Code::kCorrupt);
}

TEST_F(AssembleNodeTest, APackedTensorWithoutAnExpertOfThePlanIsAMismatch) {
  Split("granite-moe");
  EditManifest([](Manifest& manifest) {
    for (BundleRecord& bundle : manifest.bundles) {
      for (TensorRecord& tensor : bundle.tensors) {
        if (bundle.file == kGroup0 && !tensor.experts.empty()) tensor.experts.back() = 5;
      }
    }
  });
  const shard::Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("expected the experts that the plan gives this node"));
}

TEST_F(AssembleNodeTest, APackedTensorThatIsNoMultipleOfItsExpertsIsAMismatch) {
  Split("granite-moe");
  EditManifest([](Manifest& manifest) {
    for (BundleRecord& bundle : manifest.bundles) {
      for (TensorRecord& tensor : bundle.tensors) {
        if (bundle.file == kGroup0 && !tensor.experts.empty()) tensor.experts.push_back(5);
      }
    }
  });
  const shard::Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("expected whole experts of one type and shape"));
}

TEST_F(AssembleNodeTest, AnExplicitExpertThatIsNotEligibleIsAMismatch) {
  Split("qwen3-moe");
  EditManifest([](Manifest& manifest) {
    shard::Plan& plan = manifest.plan;
    for (auto& [layer, ids] : plan.groups[0].owned) ids = {0, 1, 3};
    for (auto& [layer, ids] : plan.groups[1].owned) ids = {2, 4, 5};
    plan.groups[0].fill.clear();
    plan.groups[1].fill.clear();
    plan.uniform = false;
    manifest.versions = ComputeVersions(manifest.versions.model, plan);
  });
  const shard::Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch) << error.message;
  EXPECT_THAT(error.message, HasSubstr("expert 2: expected the experts that the plan gives"));
}

TEST_F(AssembleNodeTest, AnExistingOutputIsRefusedUnlessForced) {
  Split("qwen3-moe");
  fs::create_directory(dir_ / "node");
  fixtures::WriteFile(dir_ / "node/mine.txt", "mine");
  const shard::Error error = Refusal();
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.hint, HasSubstr("--force"));
  ASSERT_TRUE(Assemble({.force = true}));
  EXPECT_FALSE(fs::exists(dir_ / "node/mine.txt"));
}

TEST_F(AssembleNodeTest, TheDistributionIsNeverReplaced) {
  Split("qwen3-moe");
  const auto before = tiny::Tree(dir_ / "dist");
  const std::string dist = (dir_ / "dist").string();
  for (const fs::path& out :
       {dir_ / "dist", dir_.path(), dir_ / "dist/groups", dir_ / "dist/groups/001",
        dir_ / "dist/assets", dir_ / "dist/distribution.json"}) {
    const auto report = AssembleNode(dist, out.string(), {.force = true});
    ASSERT_FALSE(report) << out;
    EXPECT_EQ(report.error().code, Code::kInvalidArgument);
    EXPECT_THAT(report.error().message, HasSubstr("expected an output apart from the input"));
    EXPECT_EQ(tiny::Tree(dir_ / "dist"), before);
  }
  EXPECT_TRUE(AssembleNode(dist, (dir_ / "dist/node0").string(), {}));
}

TEST_F(AssembleNodeTest, ADirectoryWithoutAManifestIsNotFound) {
  EXPECT_EQ(Refusal().code, Code::kNotFound);
}

TEST_F(AssembleNodeTest, PartsCutIntoSeveralFilesGiveTheSameNode) {
  Split("granite-moe");
  ASSERT_TRUE(Assemble());
  const auto whole = tiny::Tree(dir_ / "node");
  const shard::MoeModel model = tiny::Model(dir_ / "source");
  WriteOptions options = tiny::Only();
  options.slice.max_part_size = 4096;
  options.force = true;
  const shard::Plan plan = ReadManifest((dir_ / "dist").string())->plan;
  ASSERT_TRUE(WriteDistribution(model, plan, (dir_ / "dist").string(), options));
  ASSERT_FALSE(fs::exists(dir_ / "dist" / kGroup0));
  ASSERT_TRUE(Assemble({.force = true}));
  // Padding of the headers follows where the first tensor lies in its source; tensors do not.
  const shard::MoeModel node = tiny::Model(dir_ / "node");
  EXPECT_EQ(tiny::Names(dir_ / "node").size(), whole.size());
  for (const shard::TensorEntry& tensor : node.checkpoint().tensors()) {
    const std::string name = node.checkpoint().files()[tensor.file].name;
    const std::string bytes = sample::ReadFile(dir_ / "node" / name);
    const std::string& before = whole.at(name);
    EXPECT_EQ(bytes.substr(bytes.size() - (bytes.size() - tensor.offset), tensor.bytes),
              before.substr(before.size() - (bytes.size() - tensor.offset), tensor.bytes))
        << tensor.name;
  }
}

}  // namespace
}  // namespace manifest
