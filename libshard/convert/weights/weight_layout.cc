#include "libshard/convert/weights/weight_layout.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <mutex>
#include <optional>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// Source: BailingMoeModel of llama.cpp's convert_hf_to_gguf.py; modeling_bailing_moe.py takes the
// larger of the two instead of their sum.
constexpr float kLeastLength = 1e-7f;

class Units : public RowReader {
 public:
  Units(RowReaderPtr base, const Checkpoint& checkpoint)
      : RowReader(base->rows(), base->row_values()), base_(std::move(base)) {
    std::vector<SourceRange> ranges;
    base_->AddReads(0, rows(), ranges);
    for (const SourceRange& range : ranges) {
      // A checkpoint promised by a config has no files.
      if (range.file < checkpoint.files().size())
        files_.emplace(range.file, checkpoint.files()[range.file]);
    }
  }

  void AddReads(uint64_t first, uint64_t count, std::vector<SourceRange>& reads) const override {
    base_->AddReads(first, count, reads);
  }
  Status Decode(const RowBytes& rows, std::span<float> out) const override {
    SHARD_TRY(const std::vector<float>* const lengths, Lengths());
    SHARD_CHECK(base_->Decode(rows, out));
    for (; !out.empty(); out = out.subspan(lengths->size())) {
      std::transform(lengths->begin(), lengths->end(), out.begin(), out.begin(),
                     [](float length, float value) { return value / length; });
    }
    return Ok();
  }
  RowRoom Room() const override {
    RowRoom room = base_->Room();
    room.fixed += row_values() * (sizeof(double) + sizeof(float)) + RowsAtOnce() * RowRoomOf(room);
    return room;
  }
  std::string Describe() const override { return Cat("unit columns (", base_->Describe(), ")"); }

 private:
  using Opened = std::map<uint32_t, ByteSourcePtr>;

  uint64_t RowRoomOf(const RowRoom& room) const {
    return room.per_row + row_values() * sizeof(float);
  }

  uint64_t RowsAtOnce() const {
    const bool far =
        std::any_of(files_.begin(), files_.end(), [](const auto& file) { return file.second.far; });
    return std::max<uint64_t>(1, (far ? kFarScanStep : kNearScanStep) / RowRoomOf(base_->Room()));
  }

  Result<const std::vector<float>*> Lengths() const {
    const std::lock_guard lock(mutex_);
    if (!lengths_) lengths_ = Measure();
    if (!*lengths_) return lengths_->error();
    return &**lengths_;
  }

  Result<std::vector<float>> Measure() const {
    Opened opened;
    for (const auto& [number, file] : files_) {
      SHARD_TRY(opened[number], OpenUnchanged(file));
    }
    std::vector<double> squares(row_values());
    std::vector<std::byte> bytes;
    std::vector<float> values;
    const uint64_t most = RowsAtOnce();
    for (uint64_t first = 0; first < rows(); first += most) {
      SHARD_CHECK(CheckInterrupt());
      const uint64_t count = std::min(most, rows() - first);
      SHARD_CHECK(Read(opened, first, count, bytes));
      values.resize(count * row_values());
      SHARD_CHECK(base_->Decode({first, count, bytes}, values));
      for (size_t i = 0; i < values.size(); ++i)
        squares[i % squares.size()] += static_cast<double>(values[i]) * values[i];
    }
    std::vector<float> lengths;
    for (const double square : squares)
      lengths.push_back(static_cast<float>(std::sqrt(square)) + kLeastLength);
    return lengths;
  }

  Status Read(const Opened& opened, uint64_t first, uint64_t count,
              std::vector<std::byte>& bytes) const {
    std::vector<SourceRange> ranges;
    base_->AddReads(first, count, ranges);
    bytes.resize(ReadBytes(*base_, first, count));
    std::span<std::byte> to = bytes;
    for (const SourceRange& range : ranges) {
      SHARD_CHECK(opened.at(range.file)->ReadAt(range.offset, to.first(range.bytes)));
      to = to.subspan(range.bytes);
    }
    return Ok();
  }

  RowReaderPtr base_;
  std::map<uint32_t, SourceFile> files_;  // the files that the base reads
  mutable std::mutex mutex_;
  mutable std::optional<Result<std::vector<float>>> lengths_;  // of the columns, once measured
};

}  // namespace

RowReaderPtr UnitColumns(RowReaderPtr base, const Checkpoint& checkpoint) {
  return std::make_shared<Units>(std::move(base), checkpoint);
}

namespace {

// `count` stacked matrices of `rows` rows; a vector is a matrix of one row.
struct Matrices {
  RowReaderPtr reader;
  const TensorEntry* plain = nullptr;  // where their values are, as long as nothing has moved
  uint64_t count = 1, rows = 1, width = 1;
};

bool IsVector(const Weight& weight, const WeightLayout& layout) {
  return weight.shape.size() <= (layout.packed ? 2u : 1u);
}

bool IsColumn(ValueRule rule) {
  return rule == ValueRule::kColumn || rule == ValueRule::kMinusExpColumn ||
         rule == ValueRule::kExpColumn;
}

bool KeepsRows(ValueRule rule) {
  return rule == ValueRule::kNone || rule == ValueRule::kSqueeze || rule == ValueRule::kFlatten ||
         rule == ValueRule::kColumn || rule == ValueRule::kByGroup || rule == ValueRule::kExpertIds;
}

// Whether the tensor consists of byte ranges of files. Single values of packed vectors would need
// one range each.
bool IsRanges(const Weight& weight, const WeightLayout& layout) {
  const RowOrder order = layout.rows.order;
  if (weight.plain == nullptr) return false;
  if (!KeepsRows(layout.rule)) return false;
  if (order == RowOrder::kEvenRows || order == RowOrder::kOddRows) return false;
  return order == RowOrder::kAsIs || !layout.packed || !IsVector(weight, layout);
}

Error WrongShape(const std::string& expected, const std::vector<uint64_t>& shape) {
  return {Code::kCorrupt, Cat("shape: expected ", expected, ", found ", FormatShape(shape))};
}

Result<std::vector<uint64_t>> Squeezed(std::vector<uint64_t> shape) {
  if (shape.size() != 3 || shape[1] != 1) {
    return WrongShape("three dimensions, the middle one 1", shape);
  }
  shape.erase(shape.begin() + 1);
  return shape;
}

// A vector as a matrix with one row per group.
Result<std::vector<uint64_t>> Grouped(uint64_t groups, const std::vector<uint64_t>& shape) {
  if (shape.size() != 1 || groups == 0 || shape[0] % groups != 0) {
    return WrongShape(Cat("one dimension, a multiple of ", groups), shape);
  }
  return std::vector<uint64_t>{groups, shape[0] / groups};
}

Result<std::vector<uint64_t>> AsColumn(const std::vector<uint64_t>& shape) {
  if (shape.size() == 1) return std::vector<uint64_t>{shape[0], 1};
  return WrongShape("one dimension", shape);
}

// The shape that the runtime requires, for the rows as they were laid out: [rows, width] of one
// expert.
Result<std::vector<uint64_t>> TargetShape(const WeightLayout& layout, std::vector<uint64_t> shape) {
  if (layout.rule == ValueRule::kSqueeze) return Squeezed(std::move(shape));
  if (layout.rule == ValueRule::kByGroup) return Grouped(layout.rows.shape.norm_groups, shape);
  if (IsColumn(layout.rule)) return AsColumn(shape);
  const uint64_t heads = layout.rows.shape.heads;
  const bool split =
      layout.rows.order == RowOrder::kMlaValues || layout.rule == ValueRule::kMlaKeys;
  if (!split) return shape;
  shape[0] /= heads;
  shape.insert(shape.begin(), heads);
  return shape;
}

Result<Matrices> MatricesOf(const Weight& weight, const WeightLayout& layout) {
  std::vector<uint64_t> inner(weight.shape.begin() + (layout.packed ? 1 : 0), weight.shape.end());
  Matrices out;
  out.count = layout.packed ? weight.shape[0] : 1;
  if (layout.rule == ValueRule::kSqueeze) {
    SHARD_TRY(inner, Squeezed(std::move(inner)));
  }
  if (layout.rule == ValueRule::kByGroup) {
    SHARD_TRY(inner, Grouped(layout.rows.shape.norm_groups, inner));
  }
  if (IsColumn(layout.rule)) {
    SHARD_TRY(inner, AsColumn(inner));
  }
  const bool moves = layout.rows.order != RowOrder::kAsIs || layout.rule != ValueRule::kNone;
  if (inner.size() > 2 && moves) return WrongShape("one or two dimensions", weight.shape);
  if (!inner.empty()) out.width = inner.back();
  for (size_t i = 0; i + 1 < inner.size(); ++i) out.rows *= inner[i];
  out.plain = weight.plain;
  out.reader = weight.reader;
  if (out.plain != nullptr) {
    out.reader = PlainRows(out.plain->format, out.plain->file, out.plain->offset,
                           out.count * out.rows, out.width);
  }
  if (out.reader->row_values() == out.width) return out;
  return WrongShape("numbers in F32, F16 or BF16 for a vector over experts", weight.shape);
}

Result<Matrices> Reordered(Matrices m, const WeightLayout& layout, bool vector) {
  if (layout.rows.order == RowOrder::kAsIs) return m;
  SHARD_TRY(const std::vector<RowRun> runs, RowsOf(layout.rows, vector ? m.width : m.rows));
  std::vector<uint64_t> rows = RowsOfRuns(runs);
  m.plain = nullptr;
  if (vector) {
    m.width = rows.size();
    m.reader = SelectedColumns(m.reader, std::vector<uint32_t>(rows.begin(), rows.end()));
    return m;
  }
  const uint64_t period = m.rows;
  m.rows = rows.size();
  m.reader = SelectedRows(m.reader, std::move(rows), period);
  return m;
}

RowReaderPtr Columns(const Matrices& m, const Window& window) {
  if (m.plain == nullptr) return TransposedRows(m.reader, window);
  return TransposedPlain({m.plain->format, m.plain->file, m.plain->offset, m.width}, window);
}

// Columns [first, first + count) of every matrix, as its rows.
Matrices Transposed(const Matrices& m, uint64_t first, uint64_t count) {
  std::vector<RowReaderPtr> parts;
  for (uint64_t i = 0; i < m.count; ++i) {
    parts.push_back(Columns(m, {i * m.rows, m.rows, first, count}));
  }
  return {StackedRows(std::move(parts)), nullptr, m.count, count, m.rows};
}

Result<Matrices> TransposedPart(const Matrices& m, ValueRule rule) {
  if (rule == ValueRule::kTranspose) return Transposed(m, 0, m.width);
  if (m.width % 2 != 0) {
    return Error{Code::kCorrupt,
                 Cat("columns: expected an even number (gate and up), found ", m.width)};
  }
  const uint64_t half = m.width / 2;
  if (rule == ValueRule::kTransposeFirst) return Transposed(m, 0, half);
  if (rule == ValueRule::kTransposeSecond) return Transposed(m, half, half);
  WeightLayout every;
  every.rows.order = rule == ValueRule::kTransposeEven ? RowOrder::kEvenRows : RowOrder::kOddRows;
  return Reordered(Transposed(m, 0, m.width), every, /*vector=*/false);
}

// The key rows of every head, transposed.
Result<Matrices> MlaKeys(const Matrices& m, const HeadShape& shape) {
  const uint64_t head = uint64_t{shape.mla_key_size} + shape.mla_value_size;
  if (m.count != 1 || shape.mla_key_size == 0 || m.rows != shape.heads * head) {
    return Error{Code::kCorrupt, Cat("rows: expected ", head, " for each of ",
                                     Plural(shape.heads, "head"), ", found ", m.rows)};
  }
  std::vector<RowReaderPtr> parts;
  for (uint64_t i = 0; i < shape.heads; ++i) {
    parts.push_back(Columns(m, {i * head, shape.mla_key_size, 0, m.width}));
  }
  return Matrices{StackedRows(std::move(parts)), nullptr, 1, shape.heads * m.width,
                  shape.mla_key_size};
}

ValueChange ChangeOf(ValueRule rule) {
  if (rule == ValueRule::kPlusOne) return ValueChange::kPlusOne;
  return rule == ValueRule::kExpColumn ? ValueChange::kExp : ValueChange::kMinusExp;
}

Result<Matrices> Applied(const WeightSource& source, Matrices m, const WeightLayout& layout) {
  switch (layout.rule) {
    case ValueRule::kNone:
    case ValueRule::kSqueeze:
    case ValueRule::kFlatten:
    case ValueRule::kColumn:
    case ValueRule::kByGroup:
    case ValueRule::kFactor:
    case ValueRule::kExpertIds:
      return m;
    case ValueRule::kPlusOne:
    case ValueRule::kMinusExp:
    case ValueRule::kMinusExpColumn:
    case ValueRule::kExpColumn:
      m.plain = nullptr;
      m.reader = ChangedValues(m.reader, ChangeOf(layout.rule));
      return m;
    case ValueRule::kTiledColumns: {
      const RowLayout columns{RowOrder::kTiledHeads, layout.rows.shape};
      return Reordered(std::move(m), {columns}, /*vector=*/true);
    }
    case ValueRule::kMlaKeys:
      return MlaKeys(m, layout.rows.shape);
    case ValueRule::kUnitColumns:
      m.plain = nullptr;
      m.reader = UnitColumns(m.reader, source.checkpoint);
      return m;
    default:
      return TransposedPart(m, layout.rule);
  }
}

Result<Matrices> MatricesFor(const WeightSource& source, const Weight& weight,
                             const WeightLayout& layout) {
  SHARD_TRY(Matrices m, MatricesOf(weight, layout));
  SHARD_TRY(m, Reordered(std::move(m), layout, IsVector(weight, layout)));
  return Applied(source, std::move(m), layout);
}

// [rows, width], or [width] for a vector; what needs no reader keeps all its dimensions.
std::vector<uint64_t> ShapeOf(const Weight& weight, const WeightLayout& layout, const Matrices& m) {
  std::vector<uint64_t> inner(weight.shape.begin() + (layout.packed ? 1 : 0), weight.shape.end());
  if (inner.empty()) return inner;
  if (inner.size() == 1) return {m.rows * m.width};  // a column has many rows
  if (inner.size() == 2) return {m.rows, m.width};
  return inner;
}

Status LayOutRanges(const WeightSource& source, const std::vector<Weight>& weights,
                    const WeightLayout& layout, GgufTensor& out) {
  // Skip the check for rows that keep their order: they always fit, and there may be a hundred
  // thousand names.
  const bool fits = layout.rows.order == RowOrder::kAsIs;
  uint64_t joined = 0;  // rows so far
  for (size_t i = 0; i < weights.size(); ++i) {
    const TensorEntry& entry = *weights[i].plain;
    const RowPlacement placement{layout.rows, layout.packed,
                                 OrderOf(layout.index, static_cast<uint32_t>(i))};
    const std::string where = fits ? "" : source.Where(entry);
    SHARD_TRY(out.shape, AppendRows(where, entry, placement, out.sources));
    if (!layout.joined) continue;
    out.shape[0] += joined;
    joined = out.shape[0];
  }
  if (layout.packed) out.shape.erase(out.shape.begin());
  auto shape = TargetShape(layout, std::move(out.shape));
  if (!shape) return std::move(shape).error().Within(source.Where(*weights[0].main));
  out.shape = *std::move(shape);
  return Ok();
}

// The product of two vectors; either may be a matrix of one row.
Status LayOutProduct(const WeightSource& source, const std::vector<Weight>& weights,
                     const WeightLayout& layout, GgufTensor& out) {
  if (weights.size() != 2) {
    return Error{Code::kCorrupt,
                 Cat(source.Where(*weights[0].main), ": expected one of two factors ",
                     "of a vector, found no other")};
  }
  std::vector<RowReaderPtr> factors;
  for (const Weight& weight : weights) {
    auto made = MatricesFor(source, weight, layout);
    if (made && made->rows == 1 && (factors.empty() || made->width == factors[0]->row_values())) {
      factors.push_back(made->reader);
      continue;
    }
    if (!made) return std::move(made).error().Within(source.Where(*weight.main));
    const std::string width =
        factors.empty() ? "values" : Plural(factors[0]->row_values(), "value");
    return WrongShape(Cat("one row of ", width), weight.shape).Within(source.Where(*weight.main));
  }
  out.shape = {factors[0]->row_values()};
  out.stored = quant::FindFormat("f32");
  out.reader = MultipliedRows(std::move(factors[0]), std::move(factors[1]));
  out.rows.push_back({0, 1, OrderOf(layout.index, 0)});
  return Ok();
}

Status LayOutReader(const WeightSource& source, const std::vector<Weight>& weights,
                    const WeightLayout& layout, GgufTensor& out) {
  std::vector<RowReaderPtr> parts;
  uint64_t rows = 0;  // of an expert
  for (const Weight& weight : weights) {
    auto made = MatricesFor(source, weight, layout);
    if (!made) return std::move(made).error().Within(source.Where(*weight.main));
    auto shape = TargetShape(layout, ShapeOf(weight, layout, *made));
    if (!shape) return std::move(shape).error().Within(source.Where(*weight.main));
    out.shape = *std::move(shape);
    rows = made->rows;
    parts.push_back(made->reader);
  }
  if (layout.joined) {
    rows *= parts.size();
    out.shape[0] = rows;
  }
  out.reader = layout.stacked || layout.joined ? StackedRows(std::move(parts)) : parts[0];
  const uint64_t ranges = std::max<uint64_t>(1, out.expert_count);
  for (uint64_t i = 0; i < ranges; ++i) {
    out.rows.push_back({i * rows, rows, OrderOf(layout.index, static_cast<uint32_t>(i))});
  }
  return Ok();
}

// Pieces that are stored as rows may have different numbers of them.
bool SameShape(const Weight& a, const Weight& b, bool joined) {
  if (!joined || a.plain == nullptr || a.shape.size() != 2) return a.shape == b.shape;
  return a.shape[1] == b.shape[1];
}

// Experts of one layer may be stored in several ways, as long as only one of these is plain
// numbers: calibration leaves some of them as they are. Pieces of one matrix are stored alike.
Status CheckAlike(const WeightSource& source, const std::vector<Weight>& weights,
                  const WeightLayout& layout) {
  const Weight& first = weights[0];
  if (layout.joined && first.shape.size() != 2) {
    return WrongShape("two dimensions", first.shape).Within(source.Where(*first.main));
  }
  const Weight* plain = nullptr;
  for (const Weight& weight : weights) {
    if (weight.plain != nullptr && plain == nullptr) plain = &weight;
    const bool same = weight.plain == nullptr || weight.main->dtype == plain->main->dtype;
    const bool alike = !layout.joined || weight.main->dtype == first.main->dtype;
    if (same && alike && SameShape(weight, first, layout.joined)) continue;
    const Weight& other = same ? first : *plain;
    return Error{Code::kUnsupported,
                 Cat(source.Where(*weight.main), ": expected ", other.main->dtype, " of shape ",
                     FormatShape(other.shape), " as the first ", layout.joined ? "piece" : "expert",
                     " has, found ", weight.main->dtype, " of shape ", FormatShape(weight.shape))};
  }
  return Ok();
}

// The type that describes all of them best.
const quant::Format* StoredType(const std::vector<Weight>& weights) {
  const quant::Format* const f32 = quant::FindFormat("f32");
  const quant::Format* type = weights[0].stored;
  for (const Weight& weight : weights) {
    if (weight.stored == type || type == f32) continue;
    type = weight.stored == f32 ? f32 : quant::FindFormat("bf16");
  }
  return type;
}

}  // namespace

Status LayOutWeights(const WeightSource& source, const std::vector<Weight>& weights,
                     const WeightLayout& layout, GgufTensor& out) {
  if (layout.rule == ValueRule::kFactor) return LayOutProduct(source, weights, layout, out);
  SHARD_CHECK(CheckAlike(source, weights, layout));
  const Weight& first = weights[0];
  out.stored = StoredType(weights);
  out.expert_count = static_cast<uint32_t>(layout.stacked  ? weights.size()
                                           : layout.packed ? first.shape[0]
                                                           : 0);
  const bool ranges = std::all_of(weights.begin(), weights.end(),
                                  [&](const Weight& weight) { return IsRanges(weight, layout); });
  if (ranges) {
    SHARD_CHECK(LayOutRanges(source, weights, layout, out));
  } else {
    SHARD_CHECK(LayOutReader(source, weights, layout, out));
  }
  if (out.expert_count > 0) out.shape.insert(out.shape.begin(), out.expert_count);
  return Ok();
}

}  // namespace moepack
