#include "libshard/convert/weight_int4.h"

#include <limits>

#include "libshard/bytes.h"
#include "libshard/convert/weight_bits.h"
#include "libshard/file.h"
#include "libshard/text.h"

namespace shard {
namespace {

struct PackedLayout {
  const TensorEntry* packed = nullptr;
  const TensorEntry* scales = nullptr;
  const TensorEntry* zeros = nullptr;   // null: the middle code is zero
  const TensorEntry* groups = nullptr;  // null: groups of `group_size` columns
  PackedBits bits;
  uint64_t rows = 0, columns = 0, group_size = 0;

  uint64_t words() const { return packed->shape[1]; }        // of a row
  uint64_t group_count() const { return scales->shape[1]; }  // of a row
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
    add(*l.scales, first, count);
    const uint64_t word = first / l.bits.per_word();
    if (l.zeros != nullptr) add(*l.zeros, word, (first + count - 1) / l.bits.per_word() - word + 1);
    if (l.groups != nullptr) add(*l.groups, 0, l.columns);
  }

  void Decode(uint64_t first, uint64_t count, std::span<const std::byte> bytes,
              std::span<float> out) const override {
    const PackedLayout& l = layout_;
    const auto take = [&](uint64_t size) {
      const auto part = bytes.first(size);
      bytes = bytes.subspan(size);
      return part;
    };
    const auto codes = take(count * l.words() * sizeof(uint32_t));
    std::vector<float> scales(count * l.group_count());
    l.scales->format->decode(take(scales.size() * l.scales->format->block_bytes), scales);
    const uint64_t skipped = first % l.bits.per_word();
    std::span<const std::byte> zeros, groups;
    if (l.zeros != nullptr)
      zeros = take(l.bits.WordsFor(skipped + count) * l.group_count() * sizeof(uint32_t));
    if (l.groups != nullptr) groups = take(l.columns * sizeof(uint32_t));
    std::vector<float> row_zeros(l.group_count());
    for (uint64_t i = 0; i < count; ++i) {
      ReadZeros(zeros, skipped + i, row_zeros);
      const Row row{codes.subspan(i * l.words() * sizeof(uint32_t)),
                    std::span(scales).subspan(i * l.group_count(), l.group_count()), row_zeros};
      DecodeRow(row, groups, out.subspan(i * l.columns, l.columns));
    }
  }

  std::string Describe() const override {
    const PackedLayout& l = layout_;
    std::string text = Cat("packed ", l.bits.bits, " ", l.rows, " ", l.columns, " ", l.group_size);
    for (const TensorEntry* entry : {l.packed, l.scales, l.zeros, l.groups}) {
      if (entry != nullptr) text += Cat(" ", entry->dtype, " ", entry->file, " ", entry->offset);
      text += ",";
    }
    return text;
  }

 private:
  struct Row {
    std::span<const std::byte> codes;
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

  void DecodeRow(const Row& row, std::span<const std::byte> groups, std::span<float> out) const {
    for (uint64_t column = 0; column < out.size(); ++column) {
      const uint64_t group = groups.empty()
                                 ? column / layout_.group_size
                                 : LoadLe<uint32_t>(groups.subspan(column * sizeof(uint32_t)));
      if (group >= row.scales.size()) {
        out[column] = std::numeric_limits<float>::quiet_NaN();
        continue;
      }
      const auto code = static_cast<float>(layout_.bits.At(row.codes, column));
      out[column] = (code - row.zeros[group]) * row.scales[group];
    }
  }

  PackedLayout layout_;
};

// The two numbers of weight_shape.
Result<std::vector<uint64_t>> ReadShapeTensor(const WeightSource& source,
                                              const TensorEntry& entry) {
  SHARD_CHECK(CheckPartType(source, entry, {"I32", "I64"}));
  SHARD_CHECK(CheckPartShape(source, entry, {2}));
  SHARD_TRY(const InputFile file, InputFile::Open(source.checkpoint.files()[entry.file].path));
  std::byte bytes[2 * sizeof(int64_t)];
  const auto read = std::span(bytes).first(entry.bytes);
  SHARD_CHECK(file.ReadAt(entry.offset, read));
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

// Rows and columns, and that the packed words hold just them.
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
  if (source.config.format != "pack-quantized") {
    return Error{Code::kUnsupported,
                 Cat(source.Where(*layout.packed), ": format: expected pack-quantized, found ",
                     Quoted(source.config.format)),
                 "safetensors output (--format safetensors) keeps weights in any format"};
  }
  SHARD_CHECK(CheckPartType(source, *layout.packed, {"I32"}));
  layout.bits.bits = source.config.bits;
  SHARD_CHECK(ReadLengths(source, stored, layout));
  SHARD_TRY(layout.scales, RequirePart(source, stored, "weight_scale"));
  SHARD_CHECK(CheckPartType(source, *layout.scales, {"F32", "BF16", "F16"}));
  layout.group_size = source.config.group_size == 0 ? layout.columns : source.config.group_size;
  const uint64_t groups =
      layout.columns / layout.group_size + (layout.columns % layout.group_size != 0);
  SHARD_CHECK(CheckPartShape(source, *layout.scales, {layout.rows, groups}));
  layout.zeros = stored.Find("weight_zero_point");
  if (layout.zeros == nullptr && !source.config.symmetric) {
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

}  // namespace shard
