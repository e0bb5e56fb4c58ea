#include "manifest/verify/source_reader.h"

#include <gtest/gtest.h>

#include <optional>

#include "fixtures/temp_dir.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

class SourceReaderTest : public testing::Test {
 protected:
  void SetUp() override {
    bytes_ = sample::Noise(3u << 20, 9);
    ASSERT_TRUE(fixtures::WriteFile(dir_ / "source", bytes_));
    file_.emplace(InputFile::Open(dir_ / "source").value());
  }
  // Reads the whole tensor in steps of `step` bytes.
  std::string ReadAll(const SourceSlices& slices, size_t total, size_t step) {
    SourceReader reader;
    std::string out(total, '\0');
    const auto span = std::as_writable_bytes(std::span(out));
    for (size_t at = 0; at < total; at += step) {
      const Status status = reader.Read(slices, at, span.subspan(at, std::min(step, total - at)));
      EXPECT_TRUE(status) << status.error().message;
    }
    return out;
  }
  fixtures::TempDir dir_;
  std::string bytes_;
  std::optional<InputFile> file_;
};

TEST_F(SourceReaderTest, ReadsSlicesOfAnySizeInStepsOfAnySize) {
  // Row and slice in bytes: an inner axis of two-byte elements with slices up to more than the
  // window.
  const std::vector<std::pair<uint64_t, uint64_t>> shapes = {
      {16, 2}, {96, 12}, {65536, 8192}, {1u << 20, 131072}};
  for (const auto& [row, slice] : shapes) {
    SCOPED_TRACE(slice);
    const SourceSlices slices{&*file_, 100, row, slice, {0, 2, 3, 7}};
    const uint64_t rows = ((3u << 20) - 100) / row;
    std::string expected;
    for (uint64_t r = 0; r < rows; ++r) {
      for (uint64_t id : {0, 2, 3, 7}) expected += bytes_.substr(100 + r * row + id * slice, slice);
    }
    for (size_t step : {size_t{1} << 20, size_t{77777}}) {
      EXPECT_EQ(ReadAll(slices, expected.size(), step), expected);
    }
  }
}

TEST_F(SourceReaderTest, ReportsASourceThatEndsTooEarly) {
  const SourceSlices slices{&*file_, (3u << 20) - 10, 64, 16, {0, 1}};
  std::vector<std::byte> out(32);
  const Status status = SourceReader().Read(slices, 0, out);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack::manifest
