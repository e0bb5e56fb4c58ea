#include "libshard/convert/weights/weight_ids.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/libshard/convert/weight_sample.h"

namespace moepack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Three tokens of two experts.
class ExpertIdTable : public testing::Test {
 protected:
  Result<Weight> Read(const std::string& dtype, const std::string& bytes, uint32_t experts) {
    sample_.tensors.clear();
    sample_.Add("weight", dtype, {3, 2}, bytes);
    EXPECT_TRUE(fixtures::WriteSafetensors(*dir_ / "a.safetensors", sample_.tensors));
    SHARD_TRY(checkpoint_, Checkpoint::Open(dir_->path()));
    StoredWeight stored("m");
    stored.Add("weight", checkpoint_.tensors()[0]);
    return ReadExpertIds({checkpoint_, config_}, stored, experts);
  }
  static std::string I64(const std::vector<int64_t>& ids) { return BytesOf(ids); }

  fixtures::TempDir own_;
  fixtures::TempDir* dir_ = &own_;
  WeightSample sample_;
  WeightConfig config_;
  Checkpoint checkpoint_;
};

TEST_F(ExpertIdTable, IsNarrowedWithoutLoss) {
  const std::string bytes = I64({0, 5, 3, 1, 4, 2});
  const auto weight = Read("I64", bytes, 6);
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_EQ(weight->stored->name, "i32");
  ASSERT_TRUE(weight->reader->CanRepack(weight->stored));
  const auto data = std::as_bytes(std::span(bytes)).subspan(16);
  std::vector<std::byte> ids(16);
  GridReport report;
  ASSERT_TRUE(weight->reader->Repack(weight->stored, {1, 2, data}, ids, report));
  std::vector<int32_t> values(4);
  std::memcpy(values.data(), ids.data(), ids.size());
  EXPECT_THAT(values, ElementsAre(3, 1, 4, 2));
  EXPECT_EQ(report.weights, 0u);
}

TEST_F(ExpertIdTable, OfI32IsKept) {
  const auto weight = Read("I32", BytesOf<int32_t>({0, 5, 3, 1, 4, 2}), 6);
  ASSERT_TRUE(weight) << weight.error().message;
  EXPECT_NE(weight->plain, nullptr);
}

TEST_F(ExpertIdTable, NamesAnIdThatIsNoExpert) {
  const std::string bytes = I64({0, 5, 3, 6, 4, -1});
  const auto weight = Read("I64", bytes, 6);
  ASSERT_TRUE(weight) << weight.error().message;
  std::vector<float> values(2);
  const auto row = [&](uint64_t number) {
    const auto data = std::as_bytes(std::span(bytes)).subspan(number * 16, 16);
    const Status status = weight->reader->Decode({number, 1, data}, values);
    return status ? "" : status.error().message;
  };
  EXPECT_EQ(row(0), "");
  EXPECT_THAT(row(1), HasSubstr("expert id at [1, 1]: expected a number from 0 to 5, found 6"));
  EXPECT_THAT(row(2), HasSubstr("at [2, 1]: expected a number from 0 to 5, found -1"));
}

TEST_F(ExpertIdTable, RefusesOtherNumbers) {
  const auto weight = Read("F32", BytesOf<float>({0, 1, 2, 3, 4, 5}), 6);
  ASSERT_FALSE(weight);
  EXPECT_THAT(weight.error().message, HasSubstr("type: expected I64 or I32, found \"F32\""));
}

}  // namespace
}  // namespace moepack
