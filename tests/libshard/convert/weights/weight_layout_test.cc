#include "libshard/convert/weights/weight_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <numeric>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "tests/libshard/convert/weight_sample.h"
#include "tests/libshard/pack/tensor_bytes.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// A file with a matrix of 3 rows of 2 after another tensor, so that offsets matter.
class UnitColumnsOfAFile : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::WriteSafetensors(dir_ / "model.safetensors",
                                           {{"other", "F32", {1}, std::string(4, '\1')},
                                            {"head", "F32", {3, 2}, Text({3, 0, -4, 0, 0, 0})}}));
  }
  static std::string Text(const std::vector<float>& values) {
    std::string text(values.size() * sizeof(float), '\0');
    std::memcpy(text.data(), values.data(), text.size());
    return text;
  }
  RowReaderPtr Reader() const {
    const auto checkpoint = Checkpoint::Open(dir_.path());
    const TensorEntry& entry = *checkpoint->Find("head");
    return UnitColumns(PlainRows(entry.format, entry.file, entry.offset, 3, 2), *checkpoint);
  }
  static Result<std::vector<float>> Row(const RowReader& reader, uint64_t row,
                                        const std::vector<float>& values) {
    std::vector<float> out(values.size());
    SHARD_CHECK(reader.Decode({row, 1, std::as_bytes(std::span(values))}, out));
    return out;
  }
  fixtures::TempDir dir_;
};

TEST_F(UnitColumnsOfAFile, ValuesAreDividedByTheLengthOfTheWholeColumn) {
  const RowReaderPtr reader = Reader();
  EXPECT_EQ(*Row(*reader, 1, {-4, 0}), (std::vector<float>{-4 / (5 + 1e-7f), 0}));
  EXPECT_EQ(*Row(*reader, 0, {3, 0}), (std::vector<float>{3 / (5 + 1e-7f), 0}));
}

TEST_F(UnitColumnsOfAFile, AColumnOfZerosStaysOne) {
  const RowReaderPtr reader = Reader();
  for (uint64_t row = 0; row < 3; ++row) EXPECT_EQ((*Row(*reader, row, {3, 0}))[1], 0);
}

TEST_F(UnitColumnsOfAFile, AFileThatChangedIsRefused) {
  const RowReaderPtr reader = Reader();
  ASSERT_TRUE(fixtures::WriteFile(dir_ / "model.safetensors", "other bytes"));
  const auto row = Row(*reader, 0, {3, 0});
  ASSERT_FALSE(row);
  EXPECT_EQ(row.error().code, Code::kCorrupt);
  EXPECT_THAT(row.error().message, HasSubstr("model.safetensors"));
}

TEST_F(UnitColumnsOfAFile, HasADescriptionDifferentFromItsBase) {
  EXPECT_THAT(Reader()->Describe(), HasSubstr("unit columns ("));
}

using testing::ElementsAre;

constexpr HeadShape kShape = {.heads = 2,
                              .mla_key_size = 2,
                              .mla_value_size = 1,
                              .linear_key_heads = 2,
                              .linear_value_heads = 4,
                              .linear_key_size = 1,
                              .linear_value_size = 1};

// A weight of values 0, 1, 2, ... in F32, or in F8_E4M3 with a scale of 1.
class Layout : public testing::Test {
 protected:
  Result<GgufTensor> LayOut(std::vector<uint64_t> shape, const WeightLayout& layout) {
    uint64_t count = 1;
    for (const uint64_t length : shape) count *= length;
    std::vector<float> values(count);
    std::iota(values.begin(), values.end(), 0.0f);
    sample_.tensors.clear();
    sample_.Add("weight", "F32", std::move(shape), BytesOf(values));
    return Made(layout);
  }
  // 16 values: 0, 1, 2, ... 8, 10, ... 18, 20, 22 as E4M3 has them.
  Result<GgufTensor> LayOutScaled(std::vector<uint64_t> shape, const WeightLayout& layout) {
    sample_.tensors.clear();
    sample_.quantization = R"({"quant_method": "fp8"})";
    sample_.Add("weight", "F8_E4M3", std::move(shape),
                {0x00, 0x38, 0x40, 0x44, 0x48, 0x4a, 0x4c, 0x4e, 0x50, 0x51, 0x52, 0x53});
    sample_.Add("weight_scale", "F32", {}, BytesOf<float>({1}));
    return Made(layout);
  }
  Result<GgufTensor> Made(const WeightLayout& layout) {
    SHARD_TRY(const Weight weight, sample_.Read());
    GgufTensor tensor;
    SHARD_CHECK(LayOutWeights(sample_.source(), {weight}, layout, tensor));
    tensor.type = tensor.stored;
    return tensor;
  }
  std::vector<float> Values(const Result<GgufTensor>& tensor) const {
    EXPECT_TRUE(tensor) << tensor.error().message;
    return tensor ? golden::ReadRows(sample_.checkpoint(), *tensor) : std::vector<float>();
  }
  std::string ErrorText(std::vector<uint64_t> shape, const WeightLayout& layout) {
    const auto tensor = LayOut(std::move(shape), layout);
    EXPECT_FALSE(tensor);
    return tensor ? "" : tensor.error().message;
  }

  WeightSample sample_;
};

TEST_F(Layout, PlainWeightsStayRangesOfTheFile) {
  const auto tensor = LayOut({2, 3}, {.index = 5});
  EXPECT_THAT(Values(tensor), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(tensor->reader, nullptr);
  EXPECT_EQ(tensor->stored->name, "f32");
  EXPECT_EQ(tensor->sources[0].order, OrderOf(5, 0));
  EXPECT_TRUE(tensor->rows.empty());
}

TEST_F(Layout, TransposesEveryExpert) {
  const auto tensor =
      LayOut({2, 2, 3}, {.rule = ValueRule::kTranspose, .packed = true, .index = 1});
  EXPECT_THAT(Values(tensor), ElementsAre(0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11));
  EXPECT_THAT(tensor->shape, ElementsAre(2, 3, 2));
  EXPECT_EQ(tensor->expert_count, 2u);
  EXPECT_THAT(tensor->rows,
              ElementsAre(RowRange{0, 3, OrderOf(1, 0)}, RowRange{3, 3, OrderOf(1, 1)}));
}

TEST_F(Layout, SplitsGateAndUpOutOfTheColumns) {
  const auto part = [&](ValueRule rule) {
    const auto tensor = LayOut({2, 2, 4}, {.rule = rule, .packed = true});
    EXPECT_THAT(tensor->shape, ElementsAre(2, 2, 2));
    return Values(tensor);
  };
  EXPECT_THAT(part(ValueRule::kTransposeFirst), ElementsAre(0, 4, 1, 5, 8, 12, 9, 13));
  EXPECT_THAT(part(ValueRule::kTransposeSecond), ElementsAre(2, 6, 3, 7, 10, 14, 11, 15));
  EXPECT_THAT(part(ValueRule::kTransposeEven), ElementsAre(0, 4, 2, 6, 8, 12, 10, 14));
  EXPECT_THAT(part(ValueRule::kTransposeOdd), ElementsAre(1, 5, 3, 7, 9, 13, 11, 15));
}

TEST_F(Layout, TransposesScaledWeightsTheSameWay) {
  const WeightLayout layout{.rule = ValueRule::kTransposeSecond, .packed = true};
  const auto tensor = LayOutScaled({2, 3, 2}, layout);
  EXPECT_THAT(tensor->shape, ElementsAre(2, 1, 3));
  EXPECT_EQ(tensor->stored->name, "bf16");
  EXPECT_THAT(Values(tensor), ElementsAre(1, 3, 5, 7, 9, 11));
}

TEST_F(Layout, SplitsKvOfLatentAttention) {
  // Two heads of two key rows and one value row.
  const WeightLayout keys{.rows = {RowOrder::kAsIs, kShape}, .rule = ValueRule::kMlaKeys};
  const WeightLayout values{.rows = {RowOrder::kMlaValues, kShape}};
  const auto key = LayOut({6, 2}, keys);
  EXPECT_THAT(key->shape, ElementsAre(2, 2, 2));
  EXPECT_THAT(Values(key), ElementsAre(0, 2, 1, 3, 6, 8, 7, 9));
  EXPECT_THAT(key->rows, ElementsAre(RowRange{0, 4, 0}));
  const auto value = LayOut({6, 2}, values);
  EXPECT_THAT(value->shape, ElementsAre(2, 1, 2));
  EXPECT_THAT(Values(value), ElementsAre(4, 5, 10, 11));
  EXPECT_THAT(Values(LayOutScaled({6, 2}, keys)), ElementsAre(0, 2, 1, 3, 6, 8, 7, 9));
  const auto scaled = LayOutScaled({6, 2}, values);
  EXPECT_THAT(scaled->shape, ElementsAre(2, 1, 2));
  EXPECT_THAT(Values(scaled), ElementsAre(4, 5, 10, 11));
}

TEST_F(Layout, ReordersColumns) {
  const WeightLayout layout{.rows = {RowOrder::kAsIs, kShape}, .rule = ValueRule::kTiledColumns};
  const auto tensor = LayOut({2, 4}, layout);
  EXPECT_THAT(tensor->shape, ElementsAre(2, 4));
  EXPECT_THAT(Values(tensor), ElementsAre(0, 2, 1, 3, 4, 6, 5, 7));
}

TEST_F(Layout, ChangesValuesOfVectorsInTheirNewOrder) {
  const auto one = LayOut({3}, {.rule = ValueRule::kPlusOne});
  EXPECT_THAT(one->shape, ElementsAre(3));
  EXPECT_THAT(Values(one), ElementsAre(1, 2, 3));
  const WeightLayout layout{.rows = {RowOrder::kTiledHeads, kShape}, .rule = ValueRule::kMinusExp};
  const auto float_exp = [](double x) { return static_cast<float>(-std::exp(x)); };
  EXPECT_THAT(Values(LayOut({4}, layout)),
              ElementsAre(-1, float_exp(2), float_exp(1), float_exp(3)));
}

TEST_F(Layout, SqueezesConvolutions) {
  const WeightLayout layout{.rows = {RowOrder::kTiledTail, kShape}, .rule = ValueRule::kSqueeze};
  const auto tensor = LayOut({8, 1, 2}, layout);
  EXPECT_THAT(tensor->shape, ElementsAre(8, 2));
  EXPECT_EQ(tensor->reader, nullptr);
  EXPECT_THAT(Values(tensor), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
}

TEST_F(Layout, TurnsVectorsIntoColumnsAndGroups) {
  const auto column = LayOut({3}, {.rule = ValueRule::kColumn});
  EXPECT_THAT(column->shape, ElementsAre(3, 1));
  EXPECT_EQ(column->reader, nullptr);
  EXPECT_THAT(Values(column), ElementsAre(0, 1, 2));
  const auto changed = LayOut({2}, {.rule = ValueRule::kMinusExpColumn});
  EXPECT_THAT(changed->shape, ElementsAre(2, 1));
  EXPECT_THAT(changed->rows, ElementsAre(RowRange{0, 2, 0}));
  EXPECT_THAT(Values(changed), ElementsAre(-1, static_cast<float>(-std::exp(1.0))));
  const WeightLayout groups{.rows = {.shape = {.norm_groups = 2}}, .rule = ValueRule::kByGroup};
  const auto grouped = LayOut({6}, groups);
  EXPECT_THAT(grouped->shape, ElementsAre(2, 3));
  EXPECT_THAT(Values(grouped), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(ErrorText({5}, groups), HasSubstr("one dimension, a multiple of 2, found [5]"));
  EXPECT_THAT(ErrorText({3, 1}, {.rule = ValueRule::kColumn}),
              HasSubstr("one dimension, found [3, 1]"));
}

TEST_F(Layout, TakesEveryOtherEntryOfPackedBiases) {
  const auto tensor = LayOut({2, 4}, {.rows = {RowOrder::kOddRows}, .packed = true});
  EXPECT_THAT(tensor->shape, ElementsAre(2, 2));
  EXPECT_THAT(Values(tensor), ElementsAre(1, 3, 5, 7));
  EXPECT_THAT(tensor->rows, ElementsAre(RowRange{0, 1, 0}, RowRange{1, 1, 1}))
      << "expected one range for each row, not for each value";
}

TEST_F(Layout, ReordersScaledRows) {
  const auto tensor = LayOutScaled({2, 2, 3}, {.rows = {RowOrder::kSecondHalf}, .packed = true});
  EXPECT_THAT(tensor->shape, ElementsAre(2, 1, 3));
  EXPECT_THAT(Values(tensor), ElementsAre(3, 4, 5, 9, 10, 11));
}

TEST_F(Layout, AVectorOverExpertsHasARangePerExpert) {
  const auto tensor = LayOut({3}, {.packed = true});
  EXPECT_THAT(tensor->shape, ElementsAre(3));
  EXPECT_EQ(tensor->expert_count, 3u);
  EXPECT_EQ(tensor->sources.size(), 3u);
}

TEST_F(Layout, RefusesShapesThatDoNotFit) {
  const WeightLayout keys{.rows = {RowOrder::kAsIs, kShape}, .rule = ValueRule::kMlaKeys};
  EXPECT_THAT(ErrorText({5, 2}, keys),
              HasSubstr("tensor \"m.weight\": rows: expected 3 for each of 2 heads, found 5"));
  EXPECT_THAT(ErrorText({2, 2, 3}, {.rule = ValueRule::kTransposeFirst, .packed = true}),
              HasSubstr("columns: expected an even number (gate and up), found 3"));
  EXPECT_THAT(ErrorText({2, 2, 3}, {.rule = ValueRule::kTransposeOdd, .packed = true}),
              HasSubstr("expected an even number"));
  EXPECT_THAT(ErrorText({2, 2}, {.rule = ValueRule::kSqueeze}),
              HasSubstr("expected three dimensions, the middle one 1, found [2, 2]"));
  EXPECT_THAT(ErrorText({2, 3, 2}, {.rule = ValueRule::kPlusOne}),
              HasSubstr("expected one or two dimensions, found [2, 3, 2]"));
  EXPECT_THAT(
      ErrorText({2, 5}, {.rows = {RowOrder::kAsIs, kShape}, .rule = ValueRule::kTiledColumns}),
      HasSubstr("4 value heads, found 5"));
  const auto vector = LayOutScaled({12}, {.packed = true});
  ASSERT_FALSE(vector);
  EXPECT_THAT(vector.error().message, HasSubstr("expected numbers in F32, F16 or BF16"));
}

TEST_F(Layout, RefusesExpertsThatDiffer) {
  ASSERT_TRUE(LayOut({2, 3}, {}));
  const Weight first = *sample_.Read();
  Weight second = first;
  second.shape = {3, 2};
  GgufTensor tensor;
  const Status status = LayOutWeights(sample_.source(), {first, second}, {.stacked = true}, tensor);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kUnsupported);
  EXPECT_THAT(status.error().message,
              HasSubstr("expected F32 of shape [2, 3] as the first expert has, found F32 of "
                        "shape [3, 2]"));
}

}  // namespace

}  // namespace moepack
