#include "libshard/convert/weights/weight_fp8.h"

#include <algorithm>
#include <optional>

#include "libshard/base/text/text.h"
#include "libshard/convert/weights/weight_scales.h"

namespace moepack {
namespace {

// Signed integers of one byte.
constexpr std::string_view kBytes = "I8";

// Where the scales of a weight's rows are. Both the weight and the scales hold one matrix after
// another.
struct ScaleGrid {
  uint64_t matrix_rows = 0;   // of the weight
  uint64_t block_rows = 0;    // of the weight that share their scales
  uint64_t block_values = 0;  // values of a row that share one
  uint64_t scale_rows = 0;    // per matrix
  uint64_t scale_columns = 0;
  uint64_t columns = 0;       // of the weight
  uint64_t first_column = 0;  // the first of those that are read

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

// All columns of the weight, or some of them.
class Scaled : public RowReader {
 public:
  Scaled(const TensorEntry& codes, const WeightScales& scales, const ScaleGrid& grid,
         uint64_t columns)
      : RowReader(codes.Elements() / codes.shape.back(), columns),
        codes_(codes),
        scales_(scales),
        grid_(grid),
        first_scale_(grid.first_column / grid.block_values),
        scale_count_((grid.first_column + columns - 1) / grid.block_values - first_scale_ + 1) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const uint64_t code_bytes = codes_.format->block_bytes;
    AddRows({&codes_, grid_.columns * code_bytes, grid_.first_column * code_bytes,
             row_values() * code_bytes},
            first, count, reads);
    const uint64_t size = scales_.value_bytes();
    AddRows(
        {&scales_.entry(), grid_.scale_columns * size, first_scale_ * size, scale_count_ * size},
        grid_.ScaleRow(first), ScaleRows(first, count), reads);
  }

  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    const uint64_t code_bytes = rows.count * row_values() * codes_.format->block_bytes;
    DecodeCodes(rows.bytes.first(code_bytes), out);
    const std::vector<float> scales = scales_.Decode(rows.bytes.subspan(code_bytes));
    const uint64_t first = grid_.ScaleRow(rows.first);
    for (uint64_t i = 0; i < rows.count; ++i) {
      const uint64_t row = grid_.ScaleRow(rows.first + i);
      SHARD_CHECK(Scale(std::span(scales).subspan((row - first) * scale_count_, scale_count_), row,
                        out.subspan(i * row_values(), row_values())));
    }
    return Ok();
  }

  RowReaderPtr Band(uint64_t first, uint64_t count) const override {
    ScaleGrid grid = grid_;
    grid.first_column += first;
    return std::make_shared<Scaled>(codes_, scales_, grid, count);
  }

  RowRoom Room() const override {
    const bool whole = row_values() == grid_.columns;
    const uint64_t scale_row =
        scale_count_ * (scales_.value_bytes() + sizeof(float)) + (whole ? 0 : kRangeRoom);
    // The rows touch at most count / step + 2 rows of scales.
    const uint64_t step = std::min(grid_.block_rows, grid_.matrix_rows);
    const uint64_t code_row = row_values() * codes_.format->block_bytes + (whole ? 0 : kRangeRoom);
    return {2 * kRangeRoom + 2 * scale_row, code_row + scale_row / step + 1};
  }

  std::string Describe() const override {
    const TensorEntry& scales = scales_.entry();
    return Cat("scaled ", codes_.format->name, " ", codes_.file, " ", codes_.offset, " ", rows(),
               " ", row_values(), " by ", scales.format->name, " ", scales.file, " ", scales.offset,
               " ", grid_.matrix_rows, " ", grid_.block_rows, " ", grid_.block_values, " ",
               grid_.first_column);
  }

 private:
  // Part of every row of a matrix, in bytes.
  struct RowPart {
    const TensorEntry* entry;
    uint64_t row_bytes, offset, bytes;
  };
  static void AddRows(const RowPart& part, uint64_t first, uint64_t count,
                      std::vector<SourceRange>& reads) {
    const uint64_t begin = part.entry->offset + first * part.row_bytes + part.offset;
    if (part.bytes == part.row_bytes) {
      reads.push_back({part.entry->file, begin, count * part.bytes});
      return;
    }
    for (uint64_t i = 0; i < count; ++i) {
      reads.push_back({part.entry->file, begin + i * part.row_bytes, part.bytes});
    }
  }

  void DecodeCodes(std::span<const std::byte> codes, std::span<float> out) const {
    if (codes_.dtype != kBytes) return codes_.format->decode(codes, out);
    std::transform(codes.begin(), codes.end(), out.begin(),
                   [](std::byte code) { return static_cast<float>(static_cast<int8_t>(code)); });
  }

  uint64_t ScaleRows(uint64_t first, uint64_t count) const {
    return grid_.ScaleRow(first + count - 1) - grid_.ScaleRow(first) + 1;
  }

  // `scale_row` is that of the scales' tensor.
  Status Scale(std::span<const float> scales, uint64_t scale_row, std::span<float> row) const {
    uint64_t begin = 0;
    for (uint64_t i = 0; i < scales.size(); ++i) {
      const uint64_t index = scale_row * grid_.scale_columns + first_scale_ + i;
      const uint64_t last = (first_scale_ + i + 1) * grid_.block_values - grid_.first_column;
      const auto block = row.subspan(begin, std::min<uint64_t>(row.size(), last) - begin);
      if (!WeightScales::IsUsable(scales[i])) return scales_.Unusable(scales[i], index);
      const auto is_zero = [](float value) { return value == 0; };
      if (scales[i] == 0 && !std::all_of(block.begin(), block.end(), is_zero)) {
        return scales_.Zero(index);
      }
      for (float& value : block) value *= scales[i];
      begin += block.size();
    }
    return Ok();
  }

  const TensorEntry& codes_;
  WeightScales scales_;
  ScaleGrid grid_;
  uint64_t first_scale_, scale_count_;  // of a row of scales
};

// Blocks of the last two dimensions; none if the scales have another shape.
std::optional<ScaleGrid> BlockGrid(const TensorEntry& codes, const TensorEntry& scales,
                                   const WeightForm& form) {
  const size_t dimensions = codes.shape.size();
  if (dimensions < 2) return std::nullopt;
  const uint64_t rows = codes.shape[dimensions - 2], columns = codes.shape[dimensions - 1];
  ScaleGrid grid{rows,
                 std::min(form.block_rows, rows),
                 std::min(form.block_columns, columns),
                 RoundedUp(rows, form.block_rows),
                 RoundedUp(columns, form.block_columns),
                 columns};
  std::vector<uint64_t> expected = codes.shape;
  expected[dimensions - 2] = grid.scale_rows;
  expected[dimensions - 1] = grid.scale_columns;
  if (scales.shape != expected) return std::nullopt;
  return grid;
}

// One scale for each index of the weight's leading dimensions: of all but the last, of some, or of
// none.
std::optional<ScaleGrid> LeftGrid(const TensorEntry& codes, const TensorEntry& scales) {
  std::vector<uint64_t> shape = scales.shape;
  while (!shape.empty() && shape.back() == 1) shape.pop_back();
  const size_t dimensions = codes.shape.size();
  if (shape.size() >= dimensions || scales.shape.size() > dimensions ||
      !std::equal(shape.begin(), shape.end(), codes.shape.begin())) {
    return std::nullopt;
  }
  const uint64_t rows = Product(codes.shape, 0, dimensions - 1);
  return ScaleGrid{rows,
                   Product(codes.shape, shape.size(), dimensions - 1),
                   codes.shape.back(),
                   scales.Elements(),
                   1,
                   codes.shape.back()};
}

Error Misshapen(const WeightSource& source, const TensorEntry& codes, const TensorEntry& scales) {
  const WeightForm& form = source.form();
  std::string expected = "one scale, or one per row";
  if (form.block_rows != 0) {
    expected = Cat("one scale per block of ", form.block_rows, " x ", form.block_columns);
  }
  return {Code::kCorrupt, Cat(source.Where(scales), ": shape: expected ", expected, " of ",
                              FormatShape(codes.shape), ", found ", FormatShape(scales.shape))};
}

// Another type is another format, which the method may have.
Status CheckNumbers(const WeightSource& source, const TensorEntry& entry,
                    std::initializer_list<std::string_view> types) {
  Status status = CheckPartType(source, entry, types);
  if (status) return status;
  return Error{Code::kUnsupported,
               Cat(status.error().message, " (method ", Quoted(source.config.method), ")"),
               "safetensors output (--format safetensors) keeps weights in any format as they are"};
}

}  // namespace

Result<Weight> ReadScaledWeight(const WeightSource& source, const StoredWeight& stored) {
  SHARD_TRY(const TensorEntry* scales, RequirePart(source, stored, kScaleLeaves));
  const TensorEntry& codes = *stored.main();
  SHARD_CHECK(CheckNumbers(source, codes, {source.form().integers ? kBytes : "F8_E4M3"}));
  SHARD_CHECK(CheckNumbers(source, *scales, {"F32", "BF16", "F16", kPowersOfTwo}));
  if (const TensorEntry* const zeros = stored.Find("weight_zero_point")) {
    return Error{Code::kUnsupported,
                 Cat(source.Where(*zeros), ": expected codes without zero points, found some (",
                     Quoted(source.config.method), ")"),
                 "safetensors output (--format safetensors) keeps weights in any format as they "
                 "are"};
  }
  if (codes.bytes == 0 || codes.shape.empty()) {
    return Error{Code::kCorrupt, Cat(source.Where(codes), ": expected values, found shape ",
                                     FormatShape(codes.shape))};
  }
  const std::optional<ScaleGrid> grid = source.form().block_rows != 0
                                            ? BlockGrid(codes, *scales, source.form())
                                            : LeftGrid(codes, *scales);
  if (!grid) return Misshapen(source, codes, *scales);
  return Weight{
      codes.shape, quant::FindFormat("bf16"), nullptr,
      std::make_shared<Scaled>(codes, WeightScales(source, *scales), *grid, codes.shape.back())};
}

}  // namespace moepack
