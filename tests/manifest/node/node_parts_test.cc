#include "manifest/node/node_parts.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <span>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/format/checkpoint.h"
#include "tests/manifest/node/assemble_sample.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

// What CutNode accepts and refuses, tested through AssembleNode.
class NodePartsTest : public AssembleNodeTest {};

TEST_F(NodePartsTest, MissingPartsAreNamed) {
  Split("qwen3-moe", {"assets"});
  struct Step {
    const char *missing, *part;
  };
  const MoeModel model = tiny::Model(dir_ / "source");
  const Plan plan = ReadManifest((dir_ / "dist").string())->plan;
  for (const Step& step :
       {Step{"trunk", "trunk"}, Step{"group 0", "group:0"}, Step{"overlay", "overlay"}}) {
    const Error error = Refusal();
    EXPECT_EQ(error.code, Code::kNotFound);
    EXPECT_THAT(error.message, HasSubstr(Cat(step.missing, ": expected a file in the manifest")));
    EXPECT_THAT(error.hint, HasSubstr("--only"));
    ASSERT_TRUE(WriteDistribution(model, plan, (dir_ / "dist").string(), tiny::Only({step.part})));
  }
  EXPECT_TRUE(Assemble());  // group 1 is not needed
}

TEST_F(NodePartsTest, AFileThatIsGoneIsNotFound) {
  Split("qwen3-moe");
  fs::remove(dir_ / "dist" / kOverlayBundle);
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.message, HasSubstr(kOverlayBundle));
}

TEST_F(NodePartsTest, LayersWithDifferentCountsAreUnsupported) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "source"));
  fixtures::WriteFile(dir_ / "groups.json",
                      R"({"groups": [{"*": "0-2", "1": "0-3"}, {"*": "3-5", "1": "4-5"}]})");
  const MoeModel model = tiny::Model(dir_ / "source");
  PlanOptions options;
  options.partition = "explicit:" + (dir_ / "groups.json").string();
  options.uniform = false;
  ASSERT_TRUE(
      WriteDistribution(model, tiny::Plan(model, options), (dir_ / "dist").string(), tiny::Only()));
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("eligible experts in layer 1 as in layer 0 (3), found 4"));
  EXPECT_THAT(error.hint, HasSubstr("--uniform"));
}

TEST_F(NodePartsTest, GroupsMayDifferInSize) {
  Split("qwen3-moe", {}, false);
  const auto small = Assemble(Group(0));
  const auto large = Assemble(Forced(1));
  ASSERT_TRUE(small && large);
  EXPECT_EQ(small->expert_count, 3u);
  EXPECT_EQ(large->expert_count, 4u);
}

TEST_F(NodePartsTest, ALayerThatRoutesByTheTokensIdHasMoreExpertsThanAModelCanSay) {
  Split("deepseek-v4");
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("as many eligible experts in layer 1 as in layer 0 (6)"));
  EXPECT_THAT(error.hint, HasSubstr("those that route by the token's id"));
}

TEST_F(NodePartsTest, AHashRoutingTableIsUnsupportedWhereItsExpertsAreNotAllThere) {
  Split("deepseek-v4");
  EditManifest([](Manifest& manifest) {
    for (GroupPlan& group : manifest.plan.groups) group.fill.erase(0);
  });
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("tid2eid"));
  EXPECT_THAT(error.message, HasSubstr("found a table that gives tokens fixed experts"));
}

TEST_F(NodePartsTest, ExpertsThatShareChunksAreUnsupported) {
  Split("grovemoe");
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("chunk_experts"));
  EXPECT_THAT(error.message, HasSubstr("found one that belongs to several experts"));
}

// The tensors of a generated checkpoint, changed by `edit`.
template <class Edit>
void ChangeTensors(const fs::path& dir, const Edit& edit) {
  std::vector<fixtures::RawTensor> tensors;
  {
    const Checkpoint checkpoint = Checkpoint::Open(dir).value();
    for (const TensorEntry& entry : checkpoint.tensors()) {
      const InputFile file = InputFile::Open(checkpoint.files()[entry.file].path).value();
      std::string bytes(entry.bytes, '\0');
      ASSERT_TRUE(file.ReadAt(entry.offset, std::as_writable_bytes(std::span(bytes))));
      tensors.push_back({entry.name, entry.dtype, entry.shape, bytes});
    }
  }
  edit(tensors);
  std::vector<fs::path> old;
  for (const auto& file : fs::directory_iterator(dir)) {
    if (file.path().string().find(".safetensors") != std::string::npos) old.push_back(file.path());
  }
  for (const fs::path& path : old) fs::remove(path);
  ASSERT_TRUE(fixtures::WriteSafetensors(dir / "model.safetensors", tensors));
}

bool IsRouter(const fixtures::RawTensor& tensor) {
  return tensor.name.ends_with("mlp.gate.weight");
}

TEST_F(NodePartsTest, APackedRouterIsUnsupported) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "source"));
  ChangeTensors(dir_ / "source", [](std::vector<fixtures::RawTensor>& tensors) {
    std::vector<fixtures::RawTensor> scales;
    for (fixtures::RawTensor& tensor : tensors) {
      if (!IsRouter(tensor)) continue;
      const uint64_t experts = tensor.shape[0], words = tensor.shape[1] / 8;
      const std::string stem = tensor.name.substr(0, tensor.name.size() - 6);
      scales.push_back({stem + "scales", "F16", {1, experts}, std::string(2 * experts, 'x')});
      tensor = {stem + "qweight", "I32", {words, experts}, std::string(4 * words * experts, 'x')};
    }
    tensors.insert(tensors.end(), scales.begin(), scales.end());
  });
  SplitSource();
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("mlp.gate.qweight\": expected a router with a row for each "
                                       "expert, found one that is packed (qweight)"));
}

TEST_F(NodePartsTest, ARouterKeepsTheOneScaleOfAllItsRows) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "source"));
  ChangeTensors(dir_ / "source", [](std::vector<fixtures::RawTensor>& tensors) {
    std::vector<fixtures::RawTensor> scales;
    for (fixtures::RawTensor& tensor : tensors) {
      if (!IsRouter(tensor)) continue;
      tensor.dtype = "F8_E4M3";
      tensor.bytes.resize(tensor.shape[0] * tensor.shape[1]);
      scales.push_back({tensor.name + "_scale", "F32", {1}, std::string(4, 'x')});
    }
    tensors.insert(tensors.end(), scales.begin(), scales.end());
  });
  SplitSource();
  const auto report = Assemble();
  ASSERT_TRUE(report) << report.error().message;
  const Checkpoint node = Checkpoint::Open(dir_ / "node").value();
  int scales = 0;
  for (const TensorEntry& entry : node.tensors()) {
    const bool router = entry.name.ends_with("mlp.gate.weight");
    const bool scale = entry.name.ends_with("mlp.gate.weight_scale");
    if (router) {
      EXPECT_EQ(entry.shape[0], report->expert_count) << entry.name;
    }
    if (scale) {
      EXPECT_EQ(entry.Elements(), 1u) << entry.name;
    }
    scales += scale ? 1 : 0;
  }
  EXPECT_GT(scales, 0);
}

// Experts 0 of all layers stay as they are, the others are packed.
TEST_F(NodePartsTest, ExpertsMayBeStoredInTwoWays) {
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "source"));
  ChangeTensors(dir_ / "source", [](std::vector<fixtures::RawTensor>& tensors) {
    std::vector<fixtures::RawTensor> scales;
    for (fixtures::RawTensor& tensor : tensors) {
      const bool expert = tensor.name.find(".experts.") != std::string::npos;
      if (!expert || tensor.name.find(".experts.0.") != std::string::npos) continue;
      const std::string stem = tensor.name.substr(0, tensor.name.size() - 6);
      scales.push_back({stem + "scales", "F16", {1, 2}, std::string(4, 'x')});
      tensor = {stem + "qweight", "I32", {1, 2}, std::string(8, 'x')};
    }
    tensors.insert(tensors.end(), scales.begin(), scales.end());
  });
  SplitSource();
  const auto report = Assemble();
  ASSERT_TRUE(report) << report.error().message;
  const Checkpoint node = Checkpoint::Open(dir_ / "node").value();
  const auto packed = std::count_if(
      node.tensors().begin(), node.tensors().end(),
      [](const TensorEntry& entry) { return entry.name.ends_with("up_proj.qweight"); });
  EXPECT_GT(packed, 0);
}

TEST_F(NodePartsTest, AHeaderThatDisagreesWithTheManifestIsAMismatch) {
  Split("qwen3-moe");
  const std::string original = fixtures::ReadFile(dir_ / "dist/distribution.json");
  using Edit = void (*)(std::vector<TensorRecord>&);
  for (const Edit edit :
       {Edit([](auto& tensors) { tensors[0].name += "x"; }),
        Edit([](auto& tensors) { std::swap(tensors[0].shape[0], tensors[0].shape[1]); }),
        Edit([](auto& tensors) { tensors[0].dtype = "F16"; }),
        Edit([](auto& tensors) { tensors.pop_back(); })}) {
    EditManifest([&](Manifest& manifest) { edit(manifest.bundles[0].tensors); });
    const Error error = Refusal();
    EXPECT_EQ(error.code, Code::kMismatch) << error.message;
    EXPECT_THAT(error.message, HasSubstr("expected as the manifest says, found otherwise"));
    EXPECT_THAT(error.message, HasSubstr(kTrunkBundle));
    fixtures::WriteFile(dir_ / "dist/distribution.json", original);
  }
}

TEST_F(NodePartsTest, AFileThatIsNotSafetensorsIsCorrupt) {
  Split("qwen3-moe");
  fixtures::WriteFile(dir_ / "dist" / kGroup0, "not weights at all");
  EXPECT_EQ(Refusal().code, Code::kCorrupt);
}

TEST_F(NodePartsTest, APackedTensorThatLacksAnExpertOfThePlanIsAMismatch) {
  Split("granite-moe");
  EditManifest([](Manifest& manifest) {
    for (BundleRecord& bundle : manifest.bundles) {
      for (TensorRecord& tensor : bundle.tensors) {
        if (bundle.file == kGroup0 && !tensor.expert_ids.empty()) tensor.expert_ids.back() = 5;
      }
    }
  });
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("expected the experts that the plan gives this node"));
}

TEST_F(NodePartsTest, APackedTensorThatIsNotAMultipleOfItsExpertsIsAMismatch) {
  Split("granite-moe");
  EditManifest([](Manifest& manifest) {
    for (BundleRecord& bundle : manifest.bundles) {
      for (TensorRecord& tensor : bundle.tensors) {
        if (bundle.file == kGroup0 && !tensor.expert_ids.empty()) tensor.expert_ids.push_back(5);
      }
    }
  });
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message,
              HasSubstr("shape: expected 4 experts along the first axis, found [3, "));
}

TEST_F(NodePartsTest, AnExplicitExpertThatIsNotEligibleIsAMismatch) {
  Split("qwen3-moe");
  EditManifest([](Manifest& manifest) {
    Plan& plan = manifest.plan;
    for (auto& [layer, ids] : plan.groups[0].owned) ids = {0, 1, 3};
    for (auto& [layer, ids] : plan.groups[1].owned) ids = {2, 4, 5};
    plan.groups[0].fill.clear();
    plan.groups[1].fill.clear();
    plan.overlays[0].fill.clear();
    plan.uniform = false;
    manifest.versions = ComputeVersions(manifest.versions.model, plan);
  });
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch) << error.message;
  EXPECT_THAT(error.message, HasSubstr("expert 2: expected the experts that the plan gives"));
}

// One file per tensor; the manifest lists only some of them.
class LostFiles : public NodePartsTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(Split(GetParam()));
    const MoeModel model = tiny::Model(dir_ / "source");
    WriteOptions options = tiny::Only();
    options.slice.max_part_size = 1;
    options.force = true;
    const Plan plan = ReadManifest((dir_ / "dist").string())->plan;
    ASSERT_TRUE(WriteDistribution(model, plan, (dir_ / "dist").string(), options));
  }
};

TEST_P(LostFiles, AMissingTensorOfOneExpertIsNoticed) {
  EditManifest([](Manifest& manifest) {
    // The group's last file has expert 2, which the overlay does not hold.
    const auto last = std::find_if(manifest.bundles.rbegin(), manifest.bundles.rend(),
                                   [](const auto& bundle) { return bundle.group == 0; });
    manifest.bundles.erase(std::next(last).base());
  });
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.hint, HasSubstr("the distribution is corrupt"));
}

TEST_P(LostFiles, AMissingLayerIsNoticed) {
  EditManifest([](Manifest& manifest) {
    std::erase_if(manifest.bundles, [](const BundleRecord& bundle) {
      return bundle.role != Role::kTrunk && bundle.tensors[0].layer == 2;
    });
  });
  const Error error = Refusal();
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("layer 2: expected all tensors of 4 experts"));
}

INSTANTIATE_TEST_SUITE_P(Layouts, LostFiles, testing::Values("qwen3-moe", "granite-moe"),
                         [](const auto& tested) {
                           return std::string(tested.index == 0 ? "Explicit" : "Packed");
                         });

TEST_F(NodePartsTest, PartsCutIntoSeveralFilesGiveTheSameNode) {
  Split("granite-moe");
  ASSERT_TRUE(Assemble());
  const auto whole = tiny::Tree(dir_ / "node");
  const MoeModel model = tiny::Model(dir_ / "source");
  WriteOptions options = tiny::Only();
  options.slice.max_part_size = 4096;
  options.force = true;
  const Plan plan = ReadManifest((dir_ / "dist").string())->plan;
  ASSERT_TRUE(WriteDistribution(model, plan, (dir_ / "dist").string(), options));
  ASSERT_FALSE(fs::exists(dir_ / "dist" / kGroup0));
  ASSERT_TRUE(Assemble(Forced()));
  // The padding of headers depends on the offset of the first tensor in its source; tensors do not.
  for (const char* file :
       {"model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"}) {
    EXPECT_EQ(DataOf(fixtures::ReadFile(dir_ / "node" / file)), DataOf(whole.at(file))) << file;
  }
}

}  // namespace
}  // namespace moepack::manifest
