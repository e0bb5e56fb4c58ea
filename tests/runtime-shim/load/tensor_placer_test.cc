#include "runtime-shim/load/tensor_placer.h"

#include <gmock/gmock.h>

#include <cstring>

#include "libshard/convert/row_reader.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

class LoadTensorPlacer : public testing::Test {
 protected:
  LoadTensorPlacer() : numbers_(3000) {
    for (size_t i = 0; i < numbers_.size(); ++i) numbers_[i] = static_cast<float>(i);
    source_.Add(0, 0, std::as_bytes(std::span(numbers_)));
  }

  // F32 rows of 10 values made of these ranges of values.
  OutputTensor Tensor(const std::vector<std::pair<uint64_t, uint64_t>>& ranges) {
    OutputTensor tensor;
    tensor.entry.name = "t";
    tensor.entry.format = quant::FindFormat("f32");
    for (const auto& [first, count] : ranges) {
      tensor.sources.push_back({0, first * 4, count * 4});
      tensor.entry.bytes += count * 4;
    }
    tensor.entry.shape = {tensor.entry.bytes / 40, 10};
    return tensor;
  }

  // From F32 rows of 10 values.
  static Encoding Floats(const char* to) {
    Encoding encoding;
    encoding.from = quant::FindFormat("f32");
    encoding.to = quant::FindFormat(to);
    encoding.row_values = 10;
    return encoding;
  }

  // The matrices of experts, each made of `ranges_each` of these ranges of values.
  OutputTensor Experts(const std::vector<std::pair<uint64_t, uint64_t>>& ranges,
                       size_t ranges_each = 1) {
    OutputTensor tensor = Tensor(ranges);
    for (uint32_t id = 0; id < ranges.size() / ranges_each; ++id) tensor.expert_ids.push_back(id);
    const uint64_t experts = tensor.expert_ids.size();
    tensor.entry.shape = {experts, tensor.entry.bytes / 40 / experts, 10};
    return tensor;
  }

  ByteView Source() const { return std::as_bytes(std::span(numbers_)); }

  static constexpr bool kApart = true;
  Status Place(OutputTensor tensor, bool experts_apart = false) {
    TensorPlacer placer("model");
    SHARD_CHECK(
        placer.Place(std::move(tensor), source_, {tensors_, memory_, counts_, experts_apart}));
    LoadOptions options;
    options.jobs = 2;
    return placer.Run(options);
  }

  std::vector<float> Values() const {
    std::vector<float> values(tensors_.back().bytes.size() / 4);
    std::memcpy(values.data(), tensors_.back().bytes.whole().data(), values.size() * 4);
    return values;
  }

  std::vector<float> numbers_;
  SourceBytes source_;
  std::vector<HostTensor> tensors_;
  std::vector<std::shared_ptr<const void>> memory_;
  LoadedPart counts_;
};

TEST_F(LoadTensorPlacer, MapsAdjacentBytes) {
  ASSERT_TRUE(Place(Tensor({{10, 20}, {30, 10}})));
  EXPECT_EQ(tensors_[0].bytes.whole().data(), Source().data() + 40);
  EXPECT_EQ(counts_.mapped, 120u);
  EXPECT_TRUE(memory_.empty());
}

TEST_F(LoadTensorPlacer, CopiesScatteredBytesInOrder) {
  ASSERT_TRUE(Place(Tensor({{30, 10}, {10, 10}})));
  EXPECT_EQ(Values()[0], 30);
  EXPECT_EQ(Values()[10], 10);
  EXPECT_EQ(counts_.mapped, 0u);
  EXPECT_EQ(counts_.bytes, 80u);
  EXPECT_EQ(memory_.size(), 1u);
}

TEST_F(LoadTensorPlacer, CopiesUnalignedBytesToAlignedMemory) {
  OutputTensor tensor = Tensor({{0, 10}});
  tensor.sources[0].offset = 2;
  ASSERT_TRUE(Place(tensor));
  EXPECT_EQ(counts_.mapped, 0u);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensors_[0].bytes.first()) % 4, 0u);
  EXPECT_EQ(std::memcmp(tensors_[0].bytes.whole().data(), Source().data() + 2, 40), 0);
}

// Experts in descending order.
TEST_F(LoadTensorPlacer, MapsEachExpertWhereItIs) {
  ASSERT_TRUE(Place(Experts({{60, 20}, {30, 20}, {0, 20}}), kApart));
  const auto views = tensors_[0].bytes.views();
  ASSERT_EQ(views.size(), 3u);
  EXPECT_EQ(views[0].data(), Source().data() + 240);
  EXPECT_EQ(views[2].data(), Source().data());
  EXPECT_EQ(tensors_[0].bytes.size(), 240u);
  EXPECT_EQ(counts_.mapped, 240u);
  EXPECT_EQ(counts_.bytes, 240u);
  EXPECT_TRUE(memory_.empty());
}

TEST_F(LoadTensorPlacer, MapsExpertsThatFollowEachOtherInOnePlace) {
  ASSERT_TRUE(Place(Experts({{20, 20}, {40, 20}, {60, 20}}), kApart));
  EXPECT_EQ(tensors_[0].bytes.whole().data(), Source().data() + 80);
  EXPECT_EQ(counts_.mapped, 240u);
}

TEST_F(LoadTensorPlacer, CopiesExpertsThatMayNotBeApart) {
  ASSERT_TRUE(Place(Experts({{60, 20}, {30, 20}, {0, 20}})));
  OutputTensor biases = Experts({{60, 20}, {30, 20}, {0, 20}});
  biases.entry.shape = {3, 20};
  ASSERT_TRUE(Place(biases, kApart));
  EXPECT_EQ(counts_.mapped, 0u);
  for (const HostTensor& tensor : tensors_) EXPECT_EQ(tensor.bytes.views().size(), 1u);
  EXPECT_EQ(Values()[0], 60);
  EXPECT_EQ(Values()[20], 30);
  EXPECT_EQ(Values()[59], 19);
}

TEST_F(LoadTensorPlacer, CopiesExpertsOfWhichEachIsInTwoPlaces) {
  ASSERT_TRUE(Place(Experts({{60, 10}, {30, 10}, {0, 10}, {80, 10}}, 2), kApart));
  EXPECT_EQ(counts_.mapped, 0u);
  EXPECT_EQ(Values()[10], 30);
  EXPECT_EQ(Values()[39], 89);
}

TEST_F(LoadTensorPlacer, EncodesExpertsToOnePlace) {
  OutputTensor tensor = Experts({{60, 20}, {30, 20}, {0, 20}});
  tensor.entry.format = quant::FindFormat("bf16");
  tensor.entry.bytes /= 2;
  tensor.encoding = std::make_shared<const Encoding>(Floats("bf16"));
  ASSERT_TRUE(Place(tensor, kApart));
  EXPECT_EQ(counts_.mapped, 0u);
  EXPECT_EQ(tensors_[0].bytes.whole().size(), 120u);
}

// A row of a type may begin wherever one of its blocks does.
TEST_F(LoadTensorPlacer, MapsBlocksThatNeedNoAlignment) {
  const auto mapped = [this](const char* type, uint64_t offset) {
    const quant::Format* const format = quant::FindFormat(type);
    OutputTensor tensor = Tensor({});
    tensor.entry.format = format;
    tensor.entry.bytes = *format->BytesFor(256);
    tensor.entry.shape = {256};
    tensor.sources = {{0, offset, tensor.entry.bytes}};
    const uint64_t before = counts_.mapped;
    EXPECT_TRUE(Place(tensor));
    return counts_.mapped > before;
  };
  EXPECT_TRUE(mapped("f32", 4));
  EXPECT_FALSE(mapped("f32", 6));
  EXPECT_TRUE(mapped("bf16", 6));
  EXPECT_FALSE(mapped("bf16", 7));
  EXPECT_TRUE(mapped("f8_e4m3", 7));
  EXPECT_TRUE(mapped("q8_0", 6));   // blocks of 34 bytes
  EXPECT_FALSE(mapped("q4_K", 6));  // blocks of 144
}

TEST_F(LoadTensorPlacer, EncodesRowsEvenIfTheirRangesAreCut) {
  OutputTensor tensor = Tensor({{100, 30}, {0, 10}, {50, 20}});
  tensor.entry.format = quant::FindFormat("bf16");
  tensor.entry.bytes /= 2;
  tensor.encoding = std::make_shared<const Encoding>(Floats("bf16"));
  ASSERT_TRUE(Place(tensor));
  ASSERT_EQ(tensors_[0].bytes.size(), 120u);
  std::vector<float> decoded(60);
  quant::FindFormat("bf16")->decode(tensors_[0].bytes.whole(), decoded);
  EXPECT_EQ(decoded[0], 100);
  EXPECT_EQ(decoded[30], 0);
  EXPECT_EQ(decoded[40], 50);
  EXPECT_EQ(decoded[59], 69);
}

TEST_F(LoadTensorPlacer, MakesRowsOfAReaderForTheRequestedRanges) {
  OutputTensor tensor = Tensor({{0, 20}});
  tensor.sources.clear();
  tensor.rows = {{7, 1, 0}, {2, 1, 1}};
  const auto rows = PlainRows(quant::FindFormat("f32"), 0, 0, 300, 10);
  Encoding encoding = Floats("f32");
  encoding.reader = SelectedRows(rows, {2, 1, 0}, 3);
  tensor.encoding = std::make_shared<const Encoding>(encoding);
  ASSERT_TRUE(Place(tensor));
  EXPECT_EQ(Values()[0], 70);  // the second of rows 6 to 8 in reverse
  EXPECT_EQ(Values()[10], 0);  // the last of rows 0 to 2
}

TEST_F(LoadTensorPlacer, LiteralsNeedNoSource) {
  OutputTensor tensor = Tensor({});
  tensor.entry.bytes = 4;
  tensor.entry.shape = {1};
  const float value = 5;
  tensor.literal =
      std::make_shared<const std::string>(reinterpret_cast<const char*>(&value), size_t{4});
  ASSERT_TRUE(Place(tensor));
  EXPECT_EQ(Values(), (std::vector<float>{5}));
}

TEST_F(LoadTensorPlacer, MissingBytesNameTheTensor) {
  const Status placed = Place(Tensor({{2995, 10}}));
  ASSERT_FALSE(placed);
  EXPECT_EQ(placed.error().code, Code::kMismatch);
  EXPECT_THAT(placed.error().message, HasSubstr("model: tensor \"t\": 20 bytes at 12000"));
}

TEST_F(LoadTensorPlacer, TypesWithoutADecoderAreRefused) {
  OutputTensor tensor = Tensor({{0, 10}});
  for (const quant::Format* format :
       {static_cast<const quant::Format*>(nullptr), quant::FindFormat("q1_0")}) {
    tensor.entry.format = format;
    const Status placed = Place(tensor);
    ASSERT_FALSE(placed);
    EXPECT_EQ(placed.error().code, Code::kUnsupported);
    EXPECT_THAT(placed.error().message, HasSubstr(format == nullptr ? "not known" : "q1_0"));
  }
}

}  // namespace
}  // namespace moepack::runtime
