#include "libshard/convert/weight_fp8.h"

#include <algorithm>
#include <optional>

#include "libshard/text.h"

namespace shard {
namespace {

// Where the scales of a weight's rows are. Matrices follow each other in the weight and in the
// scales.
struct ScaleGrid {
  uint64_t matrix_rows = 0;   // of the weight
  uint64_t block_rows = 0;    // of the weight that share their scales
  uint64_t block_values = 0;  // values of a row that share one
  uint64_t scale_rows = 0;    // per matrix
  uint64_t scale_columns = 0;

  uint64_t ScaleRow(uint64_t row) const {
    return row / matrix_rows * scale_rows + row % matrix_rows / block_rows;
  }
};

uint64_t RoundedUp(uint64_t value, uint64_t by) { return value / by + (value % by != 0); }

uint64_t Product(const std::vector<uint64_t>& shape, size_t begin, size_t end) {
  uint64_t product = 1;
  for (size_t i = begin; i < end; ++i) product *= shape[i];
  return product;
}

class Scaled : public RowReader {
 public:
  Scaled(const TensorEntry& codes, const TensorEntry& scales, const ScaleGrid& grid)
      : RowReader(codes.Elements() / codes.shape.back(), codes.shape.back()),
        codes_(codes.format),
        scales_(scales.format),
        file_(codes.file),
        scale_file_(scales.file),
        offset_(codes.offset),
        scale_offset_(scales.offset),
        grid_(grid) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const uint64_t row_bytes = row_values() * codes_->block_bytes;
    reads.push_back({file_, offset_ + first * row_bytes, count * row_bytes});
    const uint64_t scale_bytes = ScaleRowBytes(), scale_row = grid_.ScaleRow(first);
    reads.push_back({scale_file_, scale_offset_ + scale_row * scale_bytes,
                     (grid_.ScaleRow(first + count - 1) - scale_row + 1) * scale_bytes});
  }

  void Decode(uint64_t first, uint64_t count, std::span<const std::byte> bytes,
              std::span<float> out) const override {
    const uint64_t code_bytes = count * row_values() * codes_->block_bytes;
    codes_->decode(bytes.first(code_bytes), out);
    const auto scale_bytes = bytes.subspan(code_bytes);
    std::vector<float> scales(scale_bytes.size() / scales_->block_bytes);
    scales_->decode(scale_bytes, scales);
    const uint64_t scale_row = grid_.ScaleRow(first);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = (grid_.ScaleRow(first + i) - scale_row) * grid_.scale_columns;
      Scale(std::span(scales).subspan(at), out.subspan(i * row_values(), row_values()));
    }
  }

  std::string Describe() const override {
    return Cat("scaled ", codes_->name, " ", file_, " ", offset_, " ", rows(), " ", row_values(),
               " by ", scales_->name, " ", scale_file_, " ", scale_offset_, " ", grid_.matrix_rows,
               " ", grid_.block_rows, " ", grid_.block_values);
  }

 private:
  uint64_t ScaleRowBytes() const { return grid_.scale_columns * scales_->block_bytes; }

  void Scale(std::span<const float> scales, std::span<float> row) const {
    for (uint64_t block = 0; block * grid_.block_values < row.size(); ++block) {
      const uint64_t begin = block * grid_.block_values;
      const uint64_t end = std::min<uint64_t>(row.size(), begin + grid_.block_values);
      for (uint64_t i = begin; i < end; ++i) row[i] *= scales[block];
    }
  }

  const quant::Format* codes_;
  const quant::Format* scales_;
  uint32_t file_, scale_file_;
  uint64_t offset_, scale_offset_;
  ScaleGrid grid_;
};

// Blocks of the last two dimensions; none when the scales have another shape.
std::optional<ScaleGrid> BlockGrid(const TensorEntry& codes, const TensorEntry& scales,
                                   const WeightConfig& config) {
  const size_t dimensions = codes.shape.size();
  if (dimensions < 2) return std::nullopt;
  const uint64_t rows = codes.shape[dimensions - 2], columns = codes.shape[dimensions - 1];
  ScaleGrid grid{rows, config.block_rows, config.block_columns, RoundedUp(rows, config.block_rows),
                 RoundedUp(columns, config.block_columns)};
  std::vector<uint64_t> expected = codes.shape;
  expected[dimensions - 2] = grid.scale_rows;
  expected[dimensions - 1] = grid.scale_columns;
  if (scales.shape != expected) return std::nullopt;
  return grid;
}

// One scale for each index of the weight's first dimensions, of all, some or none of them but the
// last.
std::optional<ScaleGrid> LeftGrid(const TensorEntry& codes, const TensorEntry& scales) {
  std::vector<uint64_t> shape = scales.shape;
  while (!shape.empty() && shape.back() == 1) shape.pop_back();
  const size_t dimensions = codes.shape.size();
  if (shape.size() >= dimensions || scales.shape.size() > dimensions ||
      !std::equal(shape.begin(), shape.end(), codes.shape.begin())) {
    return std::nullopt;
  }
  const uint64_t rows = Product(codes.shape, 0, dimensions - 1);
  return ScaleGrid{rows, Product(codes.shape, shape.size(), dimensions - 1), codes.shape.back(),
                   scales.Elements(), 1};
}

Error Misshapen(const WeightSource& source, const TensorEntry& codes, const TensorEntry& scales) {
  const WeightConfig& config = source.config;
  std::string expected = "one scale, or one per row";
  if (config.block_rows != 0) {
    expected = Cat("one scale per block of ", config.block_rows, " x ", config.block_columns);
  }
  return {Code::kCorrupt, Cat(source.Where(scales), ": shape: expected ", expected, " of ",
                              FormatShape(codes.shape), ", found ", FormatShape(scales.shape))};
}

}  // namespace

Result<Weight> ReadScaledWeight(const WeightSource& source, const StoredWeight& stored) {
  SHARD_TRY(const TensorEntry* scales, RequirePart(source, stored, kScaleLeaves));
  const TensorEntry& codes = *stored.main();
  SHARD_CHECK(CheckPartType(source, codes, {"F8_E4M3"}));
  SHARD_CHECK(CheckPartType(source, *scales, {"F32", "BF16", "F16"}));
  if (codes.bytes == 0 || codes.shape.empty()) {
    return Error{Code::kCorrupt, Cat(source.Where(codes), ": expected values, found shape ",
                                     FormatShape(codes.shape))};
  }
  const std::optional<ScaleGrid> grid = source.config.block_rows != 0
                                            ? BlockGrid(codes, *scales, source.config)
                                            : LeftGrid(codes, *scales);
  if (!grid) return Misshapen(source, codes, *scales);
  return Weight{codes.shape, quant::FindFormat("bf16"), nullptr,
                std::make_shared<Scaled>(codes, *scales, *grid)};
}

}  // namespace shard
