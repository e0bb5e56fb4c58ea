#include "libshard/pack/slice_gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/format/gguf.h"
#include "libshard/pack/pack.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Two layers of four experts: a norm, a router with bias, one packed expert tensor of 2 rows of 32.
GgufModel SmallModel() {
  GgufModel model;
  model.metadata.Set("general.architecture", GgufValue::String("qwen3moe"));
  uint64_t offset = 0;
  const auto add = [&](const std::string& name, Part part, std::vector<uint64_t> shape,
                       uint32_t experts, const char* stored, const char* type) {
    GgufTensor tensor;
    tensor.name = tensor.source_tensor = name;
    tensor.shape = std::move(shape);
    tensor.stored = quant::FindFormat(stored);
    tensor.type = quant::FindFormat(type);
    tensor.part = part;
    tensor.layer = 0;
    tensor.expert_count = experts;
    const uint64_t pieces = experts == 0 ? 1 : experts;
    const uint64_t bytes = *tensor.stored->BytesFor(tensor.elements() / pieces);
    for (uint32_t i = 0; i < pieces; ++i) {
      tensor.sources.push_back({0, offset, bytes, OrderOf(model.tensors.size(), i)});
      offset += bytes;
    }
    model.tensors.push_back(std::move(tensor));
  };
  add("output_norm.weight", Part::kTrunk, {32}, 0, "f32", "f32");
  add("blk.0.ffn_gate_inp.weight", Part::kRouter, {4, 32}, 4, "bf16", "f32");
  add("blk.0.exp_probs_b.bias", Part::kRouter, {4}, 4, "f32", "f32");
  add("blk.0.ffn_up_exps.weight", Part::kExpert, {4, 2, 32}, 4, "bf16", "q8_0");
  return model;
}

Plan TwoGroups() {
  Plan plan;
  plan.layers = {{0, 4}};
  plan.groups.resize(2);
  plan.groups[0].owned = {{0, {0, 1}}};
  plan.groups[1].owned = {{0, {2, 3}}};
  plan.groups[1].fill = {{0, {0}}};
  plan.overlays = {{"v1", "", {{0, {1}}}, {}}};
  return plan;
}

std::vector<OutputFile> Slice(const GgufModel& model, const SliceOptions& options = {},
                              uint64_t alignment = kGgufDefaultAlignment) {
  auto files = SliceGguf({model, "0123456789abcdef", {}, alignment}, TwoGroups(), options);
  EXPECT_TRUE(files) << files.error().message;
  return files ? *files : std::vector<OutputFile>();
}

GgufHeader HeaderOf(const OutputFile& file) {
  auto header = ParseGguf(file.path, std::as_bytes(std::span(file.prefix)), file.size);
  EXPECT_TRUE(header) << header.error().message;
  return header ? *header : GgufHeader();
}

TEST(SliceGguf, WritesHeadTrunkRoutersGroupsAndOverlay) {
  std::vector<std::string> paths;
  for (const OutputFile& file : Slice(SmallModel())) paths.push_back(file.path);
  EXPECT_THAT(paths, ElementsAre("head/head.gguf", "trunk/trunk.gguf", "routers/routers.gguf",
                                 "groups/000/experts.gguf", "groups/001/experts.gguf",
                                 "overlays/v1/experts.gguf"));
}

// The model of a file that was laid out at 64, as its header still says.
GgufModel ModelAt64() {
  GgufModel model = SmallModel();
  model.metadata.Set(kGgufAlignmentKey, GgufValue::U32(64));
  return model;
}

TEST(SliceGguf, EveryFileHasTheDefaultAlignmentWithoutTheKey) {
  for (const OutputFile& file : Slice(ModelAt64())) {
    const GgufHeader header = HeaderOf(file);
    EXPECT_EQ(header.alignment, 32u) << file.path;
    EXPECT_EQ(header.metadata.Find(kGgufAlignmentKey), nullptr) << file.path;
    EXPECT_EQ(header.tensors.size(), file.tensors.size());
    for (size_t i = 0; i < header.tensors.size(); ++i) {
      EXPECT_EQ(header.tensors[i].offset, file.tensors[i].entry.offset);
      EXPECT_EQ(header.tensors[i].bytes, file.tensors[i].entry.bytes);
    }
  }
}

TEST(SliceGguf, EveryFileHasTheRequestedAlignment) {
  const std::vector<OutputFile> files = Slice(ModelAt64(), {}, 4096);
  ASSERT_EQ(files.size(), 6u);
  for (const OutputFile& file : files) {
    EXPECT_EQ(HeaderOf(file).alignment, 4096u) << file.path;
    for (const OutputTensor& tensor : file.tensors) EXPECT_EQ(tensor.entry.offset % 4096, 0u);
    EXPECT_EQ(file.size % 4096, 0u);
  }
  EXPECT_NE(PackIdentity({}, files), PackIdentity({}, Slice(ModelAt64())));
}

TEST(SliceGguf, TheTrunkHasNoRoutersAndOnlySplitNo) {
  const OutputFile trunk = Slice(SmallModel())[1];
  ASSERT_EQ(trunk.tensors.size(), 1u);
  EXPECT_EQ(trunk.tensors[0].entry.name, "output_norm.weight");
  const GgufMetadata metadata = HeaderOf(trunk).metadata;
  ASSERT_NE(metadata.Find("split.no"), nullptr);
  EXPECT_EQ(*metadata.Find("split.no"), GgufValue::U16(1));
  EXPECT_EQ(metadata.Find("split.count"), nullptr);
}

TEST(SliceGguf, AGroupHoldsRowsOfOwnedAndFilledExpertsAscending) {
  const OutputFile group = Slice(SmallModel())[4];
  ASSERT_EQ(group.tensors.size(), 3u);
  const OutputTensor& router = group.tensors[0];
  EXPECT_THAT(router.expert_ids, ElementsAre(0, 2, 3));
  EXPECT_EQ(router.entry.shape, (std::vector<uint64_t>{3, 32}));
  EXPECT_EQ(router.entry.bytes, 3u * 32 * 4);
  ASSERT_TRUE(router.encoding);
  EXPECT_EQ(router.encoding->rows_per_slice, 1u);
  const OutputTensor& bias = group.tensors[1];
  EXPECT_EQ(bias.entry.shape, (std::vector<uint64_t>{3}));
  EXPECT_FALSE(bias.encoding) << "F32 stays F32";
  const OutputTensor& up = group.tensors[2];
  EXPECT_EQ(up.entry.bytes, 3u * 2 * 34);
  ASSERT_EQ(up.sources.size(), 3u);
  EXPECT_EQ(up.encoding->rows_per_slice, 2u);
}

TEST(SliceGguf, TheOverlayMayHaveItsOwnType) {
  const GgufModel model = SmallModel();
  std::vector<const quant::Format*> types(model.tensors.size(), nullptr);
  types[3] = quant::FindFormat("f16");
  const auto files = SliceGguf({model, "v", types}, TwoGroups(), {});
  ASSERT_TRUE(files);
  EXPECT_EQ((*files)[5].tensors[2].entry.dtype, "f16");
  EXPECT_EQ((*files)[4].tensors[2].entry.dtype, "q8_0");
}

TEST(SliceGguf, RowsOfPartialBlocksAreRefused) {
  GgufModel model = SmallModel();
  model.tensors[3].type = quant::FindFormat("q4_K");
  const auto files = SliceGguf({model, "v", {}}, TwoGroups(), {});
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().code, Code::kUnsupported);
  EXPECT_THAT(files.error().message,
              HasSubstr("expected rows of a multiple of 256 values, found 32"));
}

TEST(SliceGguf, ATypeWithoutDecoderIsRefused) {
  GgufModel model = SmallModel();
  model.tensors[3].stored = quant::FindFormat("i32");
  const auto files = SliceGguf({model, "v", {}}, TwoGroups(), {});
  ASSERT_FALSE(files);
  EXPECT_THAT(files.error().message, HasSubstr("expected a type that can be decoded"));
}

TEST(SliceGguf, PartsOfTheTrunkAreNumberedAfterTheHead) {
  GgufModel model = SmallModel();
  GgufTensor second = model.tensors[0];
  second.name = "token_embd.weight";
  model.tensors.push_back(second);
  const std::vector<OutputFile> files = Slice(model, {.parts = {}, .max_part_size = 128});
  EXPECT_EQ(files[1].path, "trunk/trunk-00001-of-00002.gguf");
  EXPECT_EQ(*HeaderOf(files[2]).metadata.Find("split.no"), GgufValue::U16(2));
}

TEST(WholeGguf, IsOneFileOrASplitSetThatCountsAllTensors) {
  const auto one = WholeGguf(SmallModel(), {.stem = "tiny"});
  ASSERT_TRUE(one);
  ASSERT_EQ(one->size(), 1u);
  EXPECT_EQ((*one)[0].path, "tiny.gguf");
  EXPECT_EQ(HeaderOf((*one)[0]).metadata.Find("split.count"), nullptr);
  const auto set = WholeGguf(SmallModel(), {.stem = "tiny", .max_part_size = 256});
  ASSERT_TRUE(set);
  ASSERT_EQ(set->size(), 4u);
  EXPECT_EQ((*set)[3].path, "tiny-00004-of-00004.gguf");
  for (size_t i = 0; i < set->size(); ++i) {
    const GgufMetadata metadata = HeaderOf((*set)[i]).metadata;
    EXPECT_EQ(*metadata.Find("split.no"), GgufValue::U16(static_cast<uint16_t>(i)));
    EXPECT_EQ(*metadata.Find("split.count"), GgufValue::U16(4));
    EXPECT_EQ(*metadata.Find("split.tensors.count"), GgufValue::I32(4));
  }
}

}  // namespace
}  // namespace moepack
