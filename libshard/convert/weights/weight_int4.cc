#include "libshard/convert/weights/weight_int4.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "libshard/base/bytes.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/weights/weight_scales.h"
#include "quant/legacy/nibble_pairs.h"

namespace moepack {
namespace {

constexpr uint64_t kQ4BlockValues = 32;  // of ggml's q4_0
constexpr uint32_t kMiddleCode = 8;      // of four bits

struct PackedLayout {
  const TensorEntry* packed = nullptr;
  WeightScales scales;
  const TensorEntry* zeros = nullptr;   // null: the middle code is zero
  const TensorEntry* groups = nullptr;  // null: groups of `group_size` columns
  PackedBits bits;
  uint64_t rows = 0, columns = 0, group_size = 0;

  uint64_t words() const { return packed->shape[1]; }               // of a row
  uint64_t group_count() const { return scales.entry().shape[1]; }  // of a row
};

class Packed : public RowReader {
 public:
  explicit Packed(const PackedLayout& layout)
      : RowReader(layout.rows, layout.columns), layout_(layout) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const PackedLayout& l = layout_;
    const auto add = [&](const TensorEntry& entry, uint64_t begin, uint64_t rows) {
      const uint64_t row_bytes = entry.bytes / entry.shape[0];
      reads.push_back({entry.file, entry.offset + begin * row_bytes, rows * row_bytes});
    };
    add(*l.packed, first, count);
    add(l.scales.entry(), first, count);
    const uint64_t word = first / l.bits.per_word();
    if (l.zeros != nullptr) add(*l.zeros, word, (first + count - 1) / l.bits.per_word() - word + 1);
    if (l.groups != nullptr) add(*l.groups, 0, l.columns);
  }

  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    const PackedLayout& l = layout_;
    const Parts parts = PartsOf(rows);
    const uint64_t skipped = rows.first % l.bits.per_word();
    std::vector<float> row_zeros(l.group_count());
    std::vector<uint8_t> codes(l.columns);
    for (uint64_t i = 0; i < rows.count; ++i) {
      ReadZeros(parts.zeros, skipped + i, row_zeros);
      const Row row{rows.first + i, codes, parts.ScalesOf(i, l), row_zeros};
      const auto values = out.subspan(i * l.columns, l.columns);
      if (IsPairs(row)) {
        SHARD_CHECK(CheckScales(row));
        DecodePairs(row, parts.CodesOf(i, l), values);
        continue;
      }
      l.bits.Unpack(parts.CodesOf(i, l), codes);
      SHARD_CHECK(DecodeRow(row, parts.groups, values));
    }
    return Ok();
  }

  bool CanRepack(const quant::Format* to) const override {
    const PackedLayout& l = layout_;
    const bool whole = l.group_size % kQ4BlockValues == 0 || l.group_size >= l.columns;
    return to->name == "q4_0" && l.bits.bits == 4 && l.zeros == nullptr && l.groups == nullptr &&
           l.columns % kQ4BlockValues == 0 && whole;
  }

  Status Repack(const quant::Format* to, const RowBytes& rows, std::span<std::byte> out,
                GridReport& report) const override {
    const PackedLayout& l = layout_;
    const Parts parts = PartsOf(rows);
    std::vector<uint8_t> codes(l.columns);
    for (uint64_t i = 0; i < rows.count; ++i) {
      l.bits.Unpack(parts.CodesOf(i, l), codes);
      const Row row{rows.first + i, codes, parts.ScalesOf(i, l), {}};
      for (uint64_t group = 0; group < l.group_count(); ++group) {
        SHARD_TRY(const uint16_t scale, HalfScale(row, group, to, report));
        const auto values = CodesOf(row, group);
        const auto blocks = out.first(values.size() / kQ4BlockValues * to->block_bytes);
        RepackGroup(values, scale, blocks);
        out = out.subspan(blocks.size());
      }
    }
    report.weights += rows.count * l.columns;
    return Ok();
  }

  RowRoom Room() const override {
    const PackedLayout& l = layout_;
    const uint64_t word = sizeof(uint32_t), groups = l.group_count();
    const uint64_t scales = groups * (l.scales.value_bytes() + sizeof(float));
    const uint64_t zeros = groups * (word / l.bits.per_word() + 1);
    const uint64_t columns = l.groups == nullptr ? 0 : l.columns * word;
    return {4 * kRangeRoom + columns + 3 * groups * word, l.words() * word + scales + zeros};
  }

  std::string Describe() const override {
    const PackedLayout& l = layout_;
    std::string text = Cat("packed ", l.bits.bits, " ", l.rows, " ", l.columns, " ", l.group_size);
    for (const TensorEntry* entry : {l.packed, &l.scales.entry(), l.zeros, l.groups}) {
      if (entry != nullptr) text += Cat(" ", entry->dtype, " ", entry->file, " ", entry->offset);
      text += ",";
    }
    return text;
  }

 private:
  // What was read for some rows, with scales decoded.
  struct Parts {
    std::span<const std::byte> codes, zeros, groups;
    std::vector<float> scales;

    std::span<const std::byte> CodesOf(uint64_t row, const PackedLayout& l) const {
      const uint64_t size = l.words() * sizeof(uint32_t);
      return codes.subspan(row * size, size);
    }
    std::span<const float> ScalesOf(uint64_t row, const PackedLayout& l) const {
      return std::span(scales).subspan(row * l.group_count(), l.group_count());
    }
  };
  Parts PartsOf(const RowBytes& rows) const {
    const PackedLayout& l = layout_;
    std::span<const std::byte> bytes = rows.bytes;
    const auto take = [&](uint64_t size) {
      const auto part = bytes.first(size);
      bytes = bytes.subspan(size);
      return part;
    };
    Parts parts;
    parts.codes = take(rows.count * l.words() * sizeof(uint32_t));
    parts.scales = l.scales.Decode(take(rows.count * l.group_count() * l.scales.value_bytes()));
    const uint64_t words = l.bits.WordsFor(rows.first % l.bits.per_word() + rows.count);
    if (l.zeros != nullptr) parts.zeros = take(words * l.group_count() * sizeof(uint32_t));
    if (l.groups != nullptr) parts.groups = take(l.columns * sizeof(uint32_t));
    return parts;
  }

  struct Row {
    uint64_t number;  // of the weight
    std::span<const uint8_t> codes;
    std::span<const float> scales, zeros;
  };

  // `row` counts from the first value of the words.
  void ReadZeros(std::span<const std::byte> words, uint64_t row, std::span<float> out) const {
    const PackedBits& bits = layout_.bits;
    for (uint64_t group = 0; group < out.size(); ++group) {
      const uint64_t word = row / bits.per_word() * out.size() + group;
      out[group] = words.empty()
                       ? static_cast<float>(1u << (bits.bits - 1))
                       : static_cast<float>(bits.At(words.subspan(word * sizeof(uint32_t)),
                                                    row % bits.per_word()));
    }
  }

  Status CheckScales(const Row& row) const {
    for (uint64_t group = 0; group < row.scales.size(); ++group) {
      const float scale = row.scales[group];
      if (!WeightScales::IsUsable(scale)) return layout_.scales.Unusable(scale, Index(row, group));
    }
    return Ok();
  }
  uint64_t Index(const Row& row, uint64_t group) const {
    return row.number * layout_.group_count() + group;
  }

  // Neighbours share a byte and a scale, and no scale is zero: only products are needed.
  bool IsPairs(const Row& row) const {
    const PackedLayout& l = layout_;
    return l.bits.bits == 4 && l.bits.places == nullptr && l.groups == nullptr &&
           l.group_size % 2 == 0 &&
           std::find(row.scales.begin(), row.scales.end(), 0.0f) == row.scales.end();
  }

  void DecodePairs(const Row& row, std::span<const std::byte> pairs, std::span<float> out) const {
    for (uint64_t group = 0; group < row.scales.size(); ++group) {
      const uint64_t begin = group * layout_.group_size;
      const uint64_t size = std::min(layout_.group_size, out.size() - begin);
      quant::DecodeNibblePairs(pairs.subspan(begin / 2), {row.zeros[group], row.scales[group]},
                               out.subspan(begin, size));
    }
  }

  Status DecodeRow(const Row& row, std::span<const std::byte> groups, std::span<float> out) const {
    SHARD_CHECK(CheckScales(row));
    if (!groups.empty()) return DecodeIndexed(row, groups, out);
    for (uint64_t group = 0; group < row.scales.size(); ++group) {
      const auto codes = CodesOf(row, group);
      const float scale = row.scales[group], zero = row.zeros[group];
      bool any = false;
      for (size_t i = 0; i < codes.size(); ++i) {
        const float steps = static_cast<float>(codes[i]) - zero;
        any = any || steps != 0;
        out[i] = steps * scale;
      }
      if (scale == 0 && any) return layout_.scales.Zero(Index(row, group));
      out = out.subspan(codes.size());
    }
    return Ok();
  }

  // For weights where every column names its group.
  Status DecodeIndexed(const Row& row, std::span<const std::byte> groups,
                       std::span<float> out) const {
    for (uint64_t column = 0; column < out.size(); ++column) {
      const uint64_t group = LoadLe<uint32_t>(groups.subspan(column * sizeof(uint32_t)));
      if (group >= row.scales.size()) {
        out[column] = std::numeric_limits<float>::quiet_NaN();
        continue;
      }
      const float steps = static_cast<float>(row.codes[column]) - row.zeros[group];
      if (row.scales[group] == 0 && steps != 0) return layout_.scales.Zero(Index(row, group));
      out[column] = steps * row.scales[group];
    }
    return Ok();
  }

  std::span<const uint8_t> CodesOf(const Row& row, uint64_t group) const {
    const uint64_t begin = group * layout_.group_size;
    return row.codes.subspan(begin, std::min(layout_.group_size, layout_.columns - begin));
  }

  // Blocks of q4_0: the scale, then codes j and j + 16 in byte j.
  static void RepackGroup(std::span<const uint8_t> codes, uint16_t scale,
                          std::span<std::byte> out) {
    constexpr size_t kHalf = kQ4BlockValues / 2;
    for (; !codes.empty(); codes = codes.subspan(kQ4BlockValues)) {
      std::memcpy(out.data(), &scale, sizeof(scale));
      const auto bytes = out.subspan(sizeof(scale), kHalf);
      for (size_t j = 0; j < kHalf; ++j) {
        bytes[j] = static_cast<std::byte>(codes[j] | codes[j + kHalf] << 4);
      }
      out = out.subspan(sizeof(scale) + kHalf);
    }
  }

  // The scale of a group of a symmetric weight, as F16.
  Result<uint16_t> HalfScale(const Row& row, uint64_t group, const quant::Format* to,
                             GridReport& report) const {
    const PackedLayout& l = layout_;
    const float scale = row.scales[group];
    if (!WeightScales::IsUsable(scale)) return l.scales.Unusable(scale, Index(row, group));
    SHARD_TRY(const uint16_t half, l.scales.Half(scale, Index(row, group), to, report));
    const auto codes = CodesOf(row, group);
    const bool zeros =
        std::all_of(codes.begin(), codes.end(), [](uint8_t code) { return code == kMiddleCode; });
    if (scale == 0 && !zeros) return l.scales.Zero(Index(row, group));
    return half;
  }

  PackedLayout layout_;
};

// The two numbers of weight_shape.
Result<std::vector<uint64_t>> ReadShapeTensor(const WeightSource& source,
                                              const TensorEntry& entry) {
  SHARD_CHECK(CheckPartType(source, entry, {"I32", "I64"}));
  SHARD_CHECK(CheckPartShape(source, entry, {2}));
  SHARD_TRY(const ByteSourcePtr file, OpenUnchanged(source.checkpoint.files()[entry.file]));
  std::byte bytes[2 * sizeof(int64_t)];
  const auto read = std::span(bytes).first(entry.bytes);
  SHARD_CHECK(file->ReadAt(entry.offset, read));
  std::vector<uint64_t> shape;
  for (size_t i = 0; i < 2; ++i) {
    const int64_t value = entry.dtype == "I64" ? LoadLe<int64_t>(read.subspan(i * sizeof(int64_t)))
                                               : LoadLe<int32_t>(read.subspan(i * sizeof(int32_t)));
    if (value <= 0) {
      return Error{Code::kCorrupt,
                   Cat(source.Where(entry), ": expected two lengths, found ", value)};
    }
    shape.push_back(static_cast<uint64_t>(value));
  }
  return shape;
}

Status CheckZeros(const WeightSource& source, const PackedLayout& layout) {
  if (layout.zeros == nullptr) return Ok();
  SHARD_CHECK(CheckPartType(source, *layout.zeros, {"I32"}));
  return CheckPartShape(source, *layout.zeros,
                        {layout.bits.WordsFor(layout.rows), layout.group_count()});
}

Status CheckGroups(const WeightSource& source, const PackedLayout& layout) {
  if (layout.groups == nullptr) return Ok();
  SHARD_CHECK(CheckPartType(source, *layout.groups, {"I32"}));
  return CheckPartShape(source, *layout.groups, {layout.columns});
}

// Reads rows and columns, and checks that the packed words hold exactly these.
Status ReadLengths(const WeightSource& source, const StoredWeight& stored, PackedLayout& layout) {
  SHARD_TRY(const TensorEntry* shape, RequirePart(source, stored, "weight_shape"));
  SHARD_TRY(const std::vector<uint64_t> lengths, ReadShapeTensor(source, *shape));
  layout.rows = lengths[0];
  layout.columns = lengths[1];
  const std::vector<uint64_t> words = {layout.rows, layout.bits.WordsFor(layout.columns)};
  if (layout.packed->shape == words) return Ok();
  return Error{
      Code::kCorrupt,
      Cat(source.Where(*shape), ": expected the shape of what ", FormatShape(layout.packed->shape),
          " words of ", layout.bits.per_word(), " codes hold, found ", FormatShape(lengths))};
}

}  // namespace

Result<Weight> ReadPackedWeight(const WeightSource& source, const StoredWeight& stored) {
  PackedLayout layout;
  layout.packed = stored.Find("weight_packed");
  if (source.form().format != "pack-quantized") {
    return Error{Code::kUnsupported,
                 Cat(source.Where(*layout.packed), ": format: expected pack-quantized, found ",
                     Quoted(source.form().format)),
                 "safetensors output (--format safetensors) keeps weights in any format"};
  }
  SHARD_CHECK(CheckPartType(source, *layout.packed, {"I32"}));
  layout.bits.bits = source.form().bits;
  SHARD_CHECK(ReadLengths(source, stored, layout));
  SHARD_TRY(const TensorEntry* scales, RequirePart(source, stored, "weight_scale"));
  SHARD_CHECK(CheckPartType(source, *scales, {"F32", "BF16", "F16"}));
  const uint64_t group_size = source.form().group_size;
  layout.group_size = group_size == 0 ? layout.columns : std::min(group_size, layout.columns);
  const uint64_t groups =
      layout.columns / layout.group_size + (layout.columns % layout.group_size != 0);
  SHARD_CHECK(CheckPartShape(source, *scales, {layout.rows, groups}));
  layout.scales = WeightScales(source, *scales);
  layout.zeros = stored.Find("weight_zero_point");
  if (layout.zeros == nullptr && !source.form().symmetric) {
    SHARD_TRY(layout.zeros, RequirePart(source, stored, "weight_zero_point"));
  }
  SHARD_CHECK(CheckZeros(source, layout));
  layout.groups = stored.Find("weight_g_idx");
  SHARD_CHECK(CheckGroups(source, layout));
  return Weight{{layout.rows, layout.columns},
                quant::FindFormat("bf16"),
                nullptr,
                std::make_shared<Packed>(layout)};
}

}  // namespace moepack
