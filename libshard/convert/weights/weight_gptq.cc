#include "libshard/convert/weights/weight_gptq.h"

#include <algorithm>
#include <limits>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/weights/weight_scales.h"

namespace moepack {
namespace {

// Where AWQ puts value i of a word.
constexpr uint8_t kAwqPlaces[] = {0, 4, 1, 5, 2, 6, 3, 7};
constexpr uint64_t kWord = sizeof(uint32_t);

struct Layout {
  const TensorEntry* codes = nullptr;
  const TensorEntry* zeros = nullptr;
  WeightScales scales;
  const TensorEntry* groups = nullptr;  // null: groups of `group_size` columns
  PackedBits bits;
  bool along_rows = false;   // codes are packed along the rows (AWQ), not down the columns
  uint32_t zero_offset = 0;  // added to the stored value
  uint64_t rows = 0, columns = 0, group_size = 0;

  uint64_t group_count() const { return scales.entry().shape[0]; }
  // Rows of `codes`.
  uint64_t code_rows() const { return codes->shape[0]; }
};

// Part of a tensor [height, width]: elements [first, first + count) of each of its rows, one after
// another.
struct Slice {
  const TensorEntry* entry;
  uint64_t first, count;

  void AddReads(std::vector<SourceRange>& reads) const {
    const uint64_t size = entry->bytes / entry->Elements();
    for (uint64_t row = 0; row < entry->shape[0]; ++row) {
      const uint64_t at = (row * entry->shape[1] + first) * size;
      reads.push_back({entry->file, entry->offset + at, count * size});
    }
  }
};

class Gptq : public RowReader {
 public:
  explicit Gptq(const Layout& layout) : RowReader(layout.rows, layout.columns), layout_(layout) {}

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    const Layout& l = layout_;
    const uint64_t word = first / l.bits.per_word();
    const uint64_t words = (first + count - 1) / l.bits.per_word() - word + 1;
    (l.along_rows ? Slice{l.codes, word, words} : Slice{l.codes, first, count}).AddReads(reads);
    Slice{l.zeros, word, words}.AddReads(reads);
    Slice{&l.scales.entry(), first, count}.AddReads(reads);
    if (l.groups != nullptr) {
      reads.push_back({l.groups->file, l.groups->offset, l.groups->bytes});
    }
  }

  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    const Layout& l = layout_;
    const Request r = RequestOf(rows);
    SHARD_CHECK(CheckScales(r));
    for (uint64_t column = 0; column < l.columns; ++column) {
      const uint64_t group = l.groups == nullptr
                                 ? column / l.group_size
                                 : LoadLe<uint32_t>(r.groups.subspan(column * kWord));
      if (group >= l.group_count()) {
        for (uint64_t i = 0; i < r.count; ++i) {
          out[i * l.columns + column] = std::numeric_limits<float>::quiet_NaN();
        }
        continue;
      }
      for (uint64_t i = 0; i < r.count; ++i) {
        const float scale = r.scales[group * r.count + i], steps = Steps(r, i, column, group);
        if (scale == 0 && steps != 0) return l.scales.Zero(group * l.rows + r.first + i);
        out[i * l.columns + column] = steps * scale;
      }
    }
    return Ok();
  }

  RowRoom Room() const override {
    const Layout& l = layout_;
    const uint64_t per_word = l.bits.per_word(), groups = l.group_count();
    const uint64_t scales = groups * (l.scales.value_bytes() + sizeof(float));
    const uint64_t zeros = groups * (kWord / per_word + 1);
    const uint64_t codes = l.along_rows ? l.code_rows() * (kWord / per_word + 1) : 0;
    const uint64_t ranges = (l.code_rows() + 2 * groups + 1) * kRangeRoom;
    const uint64_t columns = l.groups == nullptr ? 0 : l.groups->bytes;
    // If words run along the rows, the first and the last may be read for one row.
    const uint64_t words = 2 * kWord * (groups + (l.along_rows ? l.code_rows() : 0));
    return {ranges + columns + words,
            scales + zeros + (l.along_rows ? codes : l.code_rows() * kWord), true};
  }

  std::string Describe() const override {
    const Layout& l = layout_;
    std::string text = Cat(l.along_rows ? "awq " : "gptq ", l.bits.bits, " ", l.zero_offset, " ",
                           l.rows, " ", l.columns, " ", l.group_size);
    for (const TensorEntry* entry : {l.codes, l.zeros, &l.scales.entry(), l.groups}) {
      if (entry != nullptr) text += Cat(" ", entry->dtype, " ", entry->file, " ", entry->offset);
      text += ",";
    }
    return text;
  }

 private:
  // What was read for `count` rows.
  struct Request {
    uint64_t first = 0, count = 0;
    uint64_t skipped = 0, words = 0;  // if words run along the rows: values before the first
    std::span<const std::byte> codes, zeros, groups;
    std::vector<float> scales;  // of all rows for group 0, then 1, ...
  };
  Request RequestOf(const RowBytes& rows) const {
    const Layout& l = layout_;
    std::span<const std::byte> bytes = rows.bytes;
    const auto take = [&](uint64_t size) {
      const auto part = bytes.first(size);
      bytes = bytes.subspan(size);
      return part;
    };
    Request r;
    r.first = rows.first;
    r.count = rows.count;
    r.skipped = rows.first % l.bits.per_word();
    r.words = l.bits.WordsFor(r.skipped + r.count);
    r.codes = take(l.code_rows() * (l.along_rows ? r.words : r.count) * kWord);
    r.zeros = take(l.group_count() * r.words * kWord);
    r.scales = l.scales.Decode(take(l.group_count() * r.count * l.scales.value_bytes()));
    r.groups = bytes;
    return r;
  }

  Status CheckScales(const Request& r) const {
    for (uint64_t i = 0; i < r.scales.size(); ++i) {
      if (WeightScales::IsUsable(r.scales[i])) continue;
      const uint64_t index = i / r.count * layout_.rows + r.first + i % r.count;
      return layout_.scales.Unusable(r.scales[i], index);
    }
    return Ok();
  }

  // How many steps of its group's scale a value is away from zero.
  float Steps(const Request& r, uint64_t row, uint64_t column, uint64_t group) const {
    const Layout& l = layout_;
    const uint64_t per_word = l.bits.per_word();
    const uint32_t code =
        l.along_rows ? l.bits.At(r.codes.subspan(column * r.words * kWord), r.skipped + row)
                     : l.bits.At(r.codes.subspan((column / per_word * r.count + row) * kWord),
                                 column % per_word);
    const uint32_t zero =
        l.bits.At(r.zeros.subspan(group * r.words * kWord), r.skipped + row) + l.zero_offset;
    return static_cast<float>(code) - static_cast<float>(zero);
  }

  Layout layout_;
};

Status CheckMatrix(const WeightSource& source, const TensorEntry& entry) {
  SHARD_CHECK(CheckPartType(source, entry, {"I32"}));
  if (entry.shape.size() == 2 && entry.bytes > 0) return Ok();
  return Error{Code::kCorrupt, Cat(source.Where(entry), ": shape: expected two dimensions, found ",
                                   FormatShape(entry.shape))};
}

// The shapes of companions follow from that of the codes.
Status CheckShapes(const WeightSource& source, const Layout& layout) {
  const uint64_t groups =
      layout.columns / layout.group_size + (layout.columns % layout.group_size != 0);
  const TensorEntry& scales = layout.scales.entry();
  SHARD_CHECK(CheckPartType(source, scales, {"F32", "BF16", "F16"}));
  SHARD_CHECK(CheckPartShape(source, scales, {groups, layout.rows}));
  SHARD_CHECK(CheckPartType(source, *layout.zeros, {"I32"}));
  SHARD_CHECK(CheckPartShape(source, *layout.zeros, {groups, layout.bits.WordsFor(layout.rows)}));
  if (layout.groups == nullptr) return Ok();
  SHARD_CHECK(CheckPartType(source, *layout.groups, {"I32"}));
  return CheckPartShape(source, *layout.groups, {layout.columns});
}

}  // namespace

Result<Weight> ReadGptqWeight(const WeightSource& source, const StoredWeight& stored) {
  const WeightConfig& config = source.config;
  const WeightForm& form = source.form();
  Layout layout;
  layout.codes = stored.Find("qweight");
  layout.along_rows = config.packing == WordPacking::kAwq;
  if (config.packing == WordPacking::kNone) {
    return Error{
        Code::kUnsupported,
        Cat(source.Where(*layout.codes), ": quant_method: expected gptq, awq or auto-round, found ",
            Quoted(config.method)),
        "safetensors output (--format safetensors) keeps weights in any format"};
  }
  SHARD_CHECK(CheckMatrix(source, *layout.codes));
  layout.bits = {form.bits, layout.along_rows ? kAwqPlaces : nullptr};
  layout.zero_offset = config.zeros_less_one ? 1 : 0;
  const uint64_t per_word = layout.bits.per_word();
  layout.columns = layout.codes->shape[0] * (layout.along_rows ? 1 : per_word);
  layout.rows = layout.codes->shape[1] * (layout.along_rows ? per_word : 1);
  layout.group_size =
      form.group_size == 0 ? layout.columns : std::min(form.group_size, layout.columns);
  SHARD_TRY(const TensorEntry* scales, RequirePart(source, stored, "scales"));
  layout.scales = WeightScales(source, *scales);
  SHARD_TRY(layout.zeros, RequirePart(source, stored, "qzeros"));
  layout.groups = stored.Find("g_idx");
  SHARD_CHECK(CheckShapes(source, layout));
  if (layout.groups != nullptr) layout.group_size = 0;  // the columns name their groups
  return Weight{{layout.rows, layout.columns},
                quant::FindFormat("bf16"),
                nullptr,
                std::make_shared<Gptq>(layout)};
}

}  // namespace moepack
