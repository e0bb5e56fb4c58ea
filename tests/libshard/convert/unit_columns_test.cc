#include "libshard/convert/unit_columns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"

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

}  // namespace
}  // namespace moepack
