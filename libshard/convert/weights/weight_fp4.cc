#include "libshard/convert/weights/weight_fp4.h"

#include <algorithm>
#include <limits>

#include "libshard/base/text/text.h"
#include "libshard/convert/weights/weight_fp8.h"
#include "libshard/convert/weights/weight_scales.h"

namespace moepack {
namespace {

constexpr uint64_t kCodeBytes = 16;               // of a block
constexpr uint64_t kBlockBytes = 1 + kCodeBytes;  // of ggml's
constexpr uint64_t kMxfp4BlockValues = 32;
constexpr std::byte kNanScale{255};
// The codes of formats that have whole rows of them.
constexpr std::string_view kPackedLeaves[] = {"weight_packed", "weight"};

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

bool IsMxfp4Rows(const WeightSource& source, const StoredWeight& stored) {
  const TensorEntry *codes = stored.Find(kPackedLeaves), *scales = stored.Find(kScaleLeaves);
  if (codes == nullptr) return false;
  if (codes->dtype == "U8") return source.form().mxfp4;
  return codes->dtype == "I8" && scales != nullptr && scales->dtype == kPowersOfTwo;
}

Result<Weight> ReadMxfp4Rows(const WeightSource& source, const StoredWeight& stored) {
  const TensorEntry& codes = *stored.Find(kPackedLeaves);
  SHARD_TRY(const TensorEntry* scales, RequirePart(source, stored, kScaleLeaves));
  SHARD_CHECK(CheckPartType(source, codes, {"U8", "I8"}));
  SHARD_CHECK(CheckPartType(source, *scales, {"U8", kPowersOfTwo}));
  if (codes.bytes == 0 || codes.shape.empty() || codes.shape.back() % kCodeBytes != 0) {
    return Error{Code::kCorrupt, Cat(source.Where(codes), ": shape: expected [..., a multiple of ",
                                     kCodeBytes, "], found ", FormatShape(codes.shape))};
  }
  std::vector<uint64_t> shape = codes.shape;
  shape.back() /= kCodeBytes;
  SHARD_CHECK(CheckPartShape(source, *scales, shape));
  const uint64_t groups = shape.back();
  shape.back() = groups * kMxfp4BlockValues;
  return Weight{std::move(shape), quant::FindFormat("mxfp4"), nullptr,
                std::make_shared<Mxfp4>(codes, *scales, groups)};
}

namespace {

constexpr uint64_t kGroupValues = 16;
// E2M1: a sign, two bits of exponent and one of mantissa.
constexpr float kE2m1[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};

// The three tensors of a weight.
struct Nvfp4Parts {
  const TensorEntry* codes;
  WeightScales scales, tensor_scale;
  bool divides;  // by the tensor's scale
};

class Nvfp4 : public RowReader {
 public:
  explicit Nvfp4(const Nvfp4Parts& parts)
      : RowReader(parts.codes->bytes / parts.codes->shape.back(), 2 * parts.codes->shape.back()),
        parts_(parts) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const TensorEntry &codes = *parts_.codes, &scales = parts_.scales.entry(),
                      &whole = parts_.tensor_scale.entry();
    const uint64_t row = row_values() / 2, groups = row_values() / kGroupValues;
    reads.push_back({codes.file, codes.offset + first * row, count * row});
    reads.push_back({scales.file, scales.offset + first * groups, count * groups});
    reads.push_back({whole.file, whole.offset, whole.bytes});
  }

  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    const uint64_t groups = rows.count * row_values() / kGroupValues;
    const auto codes = rows.bytes.first(rows.count * row_values() / 2);
    const std::vector<float> scales =
        parts_.scales.Decode(rows.bytes.subspan(codes.size(), groups));
    const float whole = parts_.tensor_scale.Decode(rows.bytes.subspan(codes.size() + groups))[0];
    if (!WeightScales::IsUsable(whole) || (parts_.divides && whole == 0))
      return parts_.tensor_scale.Unusable(whole, 0);
    const uint64_t first = rows.first * row_values() / kGroupValues;
    for (uint64_t group = 0; group < groups; ++group) {
      const auto values = out.subspan(group * kGroupValues, kGroupValues);
      Unpack(codes.subspan(group * kGroupValues / 2, kGroupValues / 2), values);
      SHARD_CHECK(Scale(scales[group], whole, first + group, values));
    }
    return Ok();
  }

  RowRoom Room() const override {
    const uint64_t groups = row_values() / kGroupValues;
    return {3 * kRangeRoom + parts_.tensor_scale.entry().bytes,
            row_values() / 2 + groups * (1 + sizeof(float))};
  }

  std::string Describe() const override {
    const TensorEntry &codes = *parts_.codes, &scales = parts_.scales.entry(),
                      &whole = parts_.tensor_scale.entry();
    return Cat("nvfp4 ", codes.file, " ", codes.offset, " ", scales.file, " ", scales.offset, " ",
               whole.file, " ", whole.offset, " ", parts_.divides ? "divided " : "", rows(), " ",
               row_values());
  }

 private:
  static void Unpack(std::span<const std::byte> codes, std::span<float> values) {
    for (size_t j = 0; j < codes.size(); ++j) {
      const auto pair = std::to_integer<unsigned>(codes[j]);
      values[2 * j] = kE2m1[pair & 15];
      values[2 * j + 1] = kE2m1[pair >> 4];
    }
  }

  Status Scale(float scale, float whole, uint64_t index, std::span<float> values) const {
    if (!WeightScales::IsUsable(scale)) return parts_.scales.Unusable(scale, index);
    const auto is_zero = [](float value) { return value == 0; };
    if (scale == 0 && !std::all_of(values.begin(), values.end(), is_zero))
      return parts_.scales.Zero(index);
    for (float& value : values)
      value = parts_.divides ? value * scale / whole : value * scale * whole;
    return Ok();
  }

  Nvfp4Parts parts_;
};

}  // namespace

Result<Weight> ReadNvfp4Weight(const WeightSource& source, const StoredWeight& stored) {
  const TensorEntry& whole = *stored.Find(kNvfp4TensorLeaves);
  SHARD_TRY(const TensorEntry* codes, RequirePart(source, stored, kPackedLeaves));
  SHARD_TRY(const TensorEntry* scales, RequirePart(source, stored, "weight_scale"));
  SHARD_CHECK(CheckPartType(source, *codes, {"U8"}));
  SHARD_CHECK(CheckPartType(source, *scales, {"F8_E4M3"}));
  SHARD_CHECK(CheckPartType(source, whole, {"F32"}));
  if (codes->bytes == 0 || codes->shape.empty() || codes->shape.back() % (kGroupValues / 2) != 0) {
    return Error{Code::kCorrupt, Cat(source.Where(*codes), ": shape: expected [..., a multiple of ",
                                     kGroupValues / 2, "], found ", FormatShape(codes->shape))};
  }
  std::vector<uint64_t> shape = codes->shape;
  shape.back() /= kGroupValues / 2;
  SHARD_CHECK(CheckPartShape(source, *scales, shape));
  if (whole.bytes != sizeof(float)) {
    return Error{Code::kCorrupt, Cat(source.Where(whole), ": shape: expected one scale, found ",
                                     FormatShape(whole.shape))};
  }
  shape.back() *= kGroupValues;
  const Nvfp4Parts parts = {codes, WeightScales(source, *scales), WeightScales(source, whole),
                            stored.Find("weight_scale_2") == nullptr};
  return Weight{std::move(shape), quant::FindFormat("bf16"), nullptr,
                std::make_shared<Nvfp4>(parts)};
}

}  // namespace moepack
