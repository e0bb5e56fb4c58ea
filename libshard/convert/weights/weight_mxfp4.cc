#include "libshard/convert/weights/weight_mxfp4.h"

#include <algorithm>
#include <limits>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr uint64_t kCodeBytes = 16;               // of a block
constexpr uint64_t kBlockBytes = 1 + kCodeBytes;  // of ggml's
constexpr uint64_t kMxfp4BlockValues = 32;
constexpr std::byte kNanScale{255};

// Splits 32 codes: the source pairs neighbours in a byte, ggml pairs codes that are 16 apart.
void SplitPairs(std::span<const std::byte> pairs, std::span<std::byte> out) {
  const auto code = [&](size_t i) {
    const auto byte = std::to_integer<unsigned>(pairs[i / 2]);
    return i % 2 == 0 ? byte & 15 : byte >> 4;
  };
  for (size_t j = 0; j < kCodeBytes; ++j) {
    out[j] = static_cast<std::byte>(code(j) | code(j + kCodeBytes) << 4);
  }
}

class Mxfp4 : public RowReader {
 public:
  Mxfp4(const TensorEntry& blocks, const TensorEntry& scales, uint64_t groups)
      : RowReader(scales.bytes / groups, groups * kMxfp4BlockValues),
        format_(quant::FindFormat("mxfp4")),
        groups_(groups),
        file_(blocks.file),
        scale_file_(scales.file),
        offset_(blocks.offset),
        scale_offset_(scales.offset) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const uint64_t row_bytes = groups_ * kCodeBytes;
    reads.push_back({file_, offset_ + first * row_bytes, count * row_bytes});
    reads.push_back({scale_file_, scale_offset_ + first * groups_, count * groups_});
  }

  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    std::vector<std::byte> packed(rows.count * groups_ * kBlockBytes);
    GridReport unused;
    SHARD_CHECK(Repack(format_, rows, packed, unused));
    format_->decode(packed, out);
    for (uint64_t i = 0; i < rows.count * groups_; ++i) {
      if (packed[i * kBlockBytes] != kNanScale) continue;
      const auto block = out.subspan(i * kMxfp4BlockValues, kMxfp4BlockValues);
      std::fill(block.begin(), block.end(), std::numeric_limits<float>::quiet_NaN());
    }
    return Ok();
  }

  bool CanRepack(const quant::Format* to) const override { return to == format_; }

  Status Repack(const quant::Format*, const RowBytes& rows, std::span<std::byte> out,
                GridReport& report) const override {
    const uint64_t blocks = rows.count * groups_;
    const auto scales = rows.bytes.subspan(blocks * kCodeBytes);
    for (uint64_t i = 0; i < blocks; ++i) {
      const auto block = out.subspan(i * kBlockBytes, kBlockBytes);
      block[0] = scales[i];
      SplitPairs(rows.bytes.subspan(i * kCodeBytes, kCodeBytes), block.subspan(1));
    }
    report.Add({blocks * kMxfp4BlockValues, blocks, blocks, 0});
    return Ok();
  }

  RowRoom Room() const override {
    return {2 * kRangeRoom, groups_ * (kCodeBytes + 1 + kBlockBytes)};
  }

  std::string Describe() const override {
    return Cat("mxfp4 ", file_, " ", offset_, " ", scale_file_, " ", scale_offset_, " ", rows(),
               " ", groups_);
  }

 private:
  const quant::Format* format_;
  uint64_t groups_;
  uint32_t file_, scale_file_;
  uint64_t offset_, scale_offset_;
};

}  // namespace

Result<Weight> ReadMxfp4Weight(const WeightSource& source, const StoredWeight& stored) {
  const TensorEntry& blocks = *stored.Find("blocks");
  SHARD_TRY(const TensorEntry* scales, RequirePart(source, stored, "scales"));
  SHARD_CHECK(CheckPartType(source, blocks, {"U8"}));
  SHARD_CHECK(CheckPartType(source, *scales, {"U8"}));
  if (blocks.shape.size() < 3 || blocks.bytes == 0 || blocks.shape.back() != kCodeBytes) {
    return Error{Code::kCorrupt, Cat(source.Where(blocks), ": shape: expected [..., rows, groups, ",
                                     kCodeBytes, "], found ", FormatShape(blocks.shape))};
  }
  std::vector<uint64_t> shape(blocks.shape.begin(), blocks.shape.end() - 1);
  SHARD_CHECK(CheckPartShape(source, *scales, shape));
  const uint64_t groups = shape.back();
  shape.back() = groups * kMxfp4BlockValues;
  return Weight{std::move(shape), quant::FindFormat("mxfp4"), nullptr,
                std::make_shared<Mxfp4>(blocks, *scales, groups)};
}

}  // namespace moepack
