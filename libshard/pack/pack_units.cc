#include "libshard/pack/pack_units.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <tuple>
#include <variant>

#include "libshard/convert/row_reader.h"
#include "libshard/pack/fetch.h"

namespace moepack {
namespace {

// Bytes, rows of a reader or a literal tensor (an empty range), as the outputs require it.
struct Item {
  std::variant<SourceRange, RowRange> range;
  const OutputTensor* tensor = nullptr;  // null: copied
  uint64_t row = 0;                      // first row of `tensor` that the bytes hold
  const OutputTensor* copied = nullptr;  // PackUnit::copied
  bool joins = false;  // in every target its bytes follow the previous item's without padding
  uint32_t first_target = 0;
  std::vector<uint32_t> more_targets = {};  // ascending; takes no memory if there are none

  size_t TargetCount() const { return 1 + more_targets.size(); }
  bool IsFor(const std::vector<uint32_t>& targets) const {
    return targets[0] == first_target &&
           std::equal(targets.begin() + 1, targets.end(), more_targets.begin(), more_targets.end());
  }
  std::vector<uint32_t> Targets() const {
    std::vector<uint32_t> all;
    all.reserve(TargetCount());
    all.push_back(first_target);
    all.insert(all.end(), more_targets.begin(), more_targets.end());
    return all;
  }
};

// Order, file (none for rows of a reader), where the range begins, its length.
using Place = std::tuple<uint64_t, std::optional<uint32_t>, uint64_t, uint64_t>;

Place PlaceOf(const Item& item) {
  if (const auto* rows = std::get_if<RowRange>(&item.range)) {
    return {rows->order, std::nullopt, rows->first, rows->count};
  }
  const auto& bytes = std::get<SourceRange>(item.range);
  return {bytes.order, bytes.file, bytes.offset, bytes.bytes};
}

bool IsEmpty(const Item& item) { return std::get<3>(PlaceOf(item)) == 0; }

// Two outputs need the same thing from a range if these are equal: its place and the target type.
using ItemKey = std::pair<Place, const quant::Format*>;

ItemKey KeyOf(const Item& item) {
  const quant::Format* to =
      item.tensor != nullptr && item.tensor->encoding ? item.tensor->encoding->to : nullptr;
  return {PlaceOf(item), to};
}

// Bytes of a row in the sources of a tensor without a reader.
uint64_t RowSize(const Encoding& encoding) { return *encoding.from->BytesFor(encoding.row_values); }

// The number of rows whose bytes fit in `chunk`, both as read and as written. A reader holds all
// rows of a unit at once in three forms (as read, as F32 and encoded), so these buffers together
// get twice the room.
uint64_t RowsPerUnit(const Encoding& encoding, const UnitSize& size) {
  const uint64_t to = *encoding.to->BytesFor(encoding.row_values);
  if (encoding.reader == nullptr) {
    const uint64_t from = RowSize(encoding);
    return std::max<uint64_t>(1, size.chunk / (size.far ? from + to : std::max(from, to)));
  }
  const RowRoom room = encoding.reader->Room();
  const uint64_t row = room.per_row + encoding.row_values * sizeof(float) + to;
  const uint64_t most = (size.far ? 1 : 2) * (room.scattered ? size.scattered : size.chunk);
  return room.fixed < most ? std::max<uint64_t>(1, (most - room.fixed) / row) : 1;
}

// An upper bound for the items of an output. A large model has hundreds of thousands of them, so
// reserving the right size is worth it.
size_t CountItems(const OutputFile& output) {
  size_t count = 0;
  for (const OutputTensor& tensor : output.tensors) {
    count += tensor.sources.size() + tensor.rows.size() + (tensor.literal ? 1 : 0);
  }
  return count;
}

// Appends the items of an output in the order of its bytes, from tensor `first` on.
void AddItems(const OutputFile& output, size_t first, uint32_t index, std::vector<Item>& out) {
  uint64_t end = 0;  // of the preceding bytes, in the output
  for (size_t i = first; i < output.tensors.size(); ++i) {
    const OutputTensor& tensor = output.tensors[i];
    const bool copied = !tensor.encoding && !tensor.literal;
    uint64_t row = 0;
    bool joins = tensor.entry.offset == end;
    if (tensor.literal) out.push_back({SourceRange{}, &tensor, 0, nullptr, false, index});
    for (const SourceRange& range : tensor.sources) {
      if (range.bytes == 0) continue;
      out.push_back({range, copied ? nullptr : &tensor, row,
                     copied && tensor.inspected ? &tensor : nullptr, joins, index});
      joins = true;
      if (!copied) row += range.bytes / RowSize(*tensor.encoding);
    }
    for (const RowRange& range : tensor.rows) {
      if (range.count > 0) out.push_back({range, &tensor, 0, nullptr, false, index});
    }
    end = tensor.entry.offset + tensor.entry.bytes;
  }
}

// Outputs may share items only if each takes them in ascending order. With one common order,
// outputs can never wait for each other in a circle.
bool Ascend(std::span<const Item> items) {
  return std::is_sorted(items.begin(), items.end(),
                        [](const Item& a, const Item& b) { return PlaceOf(a) < PlaceOf(b); });
}

// Makes units of at most size.chunk bytes from items that follow each other in one output.
class UnitBuilder {
 public:
  UnitBuilder(const UnitSize& size, std::vector<PackUnit>& units) : size_(size), units_(units) {}

  // `follows` says that the last unit comes right before this item in the output.
  void Add(const Item& item, bool follows) {
    if (const auto* rows = std::get_if<RowRange>(&item.range)) return AddRows(item, *rows);
    const auto& range = std::get<SourceRange>(item.range);
    if (follows && Merges(item, range)) {
      PackUnit& last = units_.back();
      const uint64_t gap = item.tensor == nullptr ? GapBefore(range) : 0;
      gaps_ += gap;
      if (item.tensor == nullptr && gap == 0) {
        last.reads.back().bytes += range.bytes;
      } else {
        last.reads.push_back(range);
      }
      last.bytes += range.bytes;
      return;
    }
    AddBytes(item, range);
  }

 private:
  // REQUIRES: the last unit reads bytes of the same file before the range.
  uint64_t GapBefore(const SourceRange& range) const {
    const SourceRange& before = units_.back().reads.back();
    return range.offset - (before.offset + before.bytes);
  }

  void AddBytes(const Item& item, const SourceRange& range) {
    gaps_ = 0;
    const uint64_t step = Step(item);
    const uint64_t row_bytes =
        item.tensor != nullptr && item.tensor->encoding ? RowSize(*item.tensor->encoding) : 0;
    uint64_t at = 0;
    // A literal has no bytes to read, but is a unit all the same.
    do {
      const SourceRange piece = range.Part(at, std::min(step, range.bytes - at));
      PackUnit unit{{}, {}, piece.bytes, item.tensor, item.row, item.copied, item.Targets()};
      if (row_bytes > 0) unit.first_row += at / row_bytes;
      if (piece.bytes > 0) unit.reads.push_back(piece);
      units_.push_back(std::move(unit));
      at += step;
    } while (at < range.bytes);
  }

  // Such ranges are large already, and are never merged.
  void AddRows(const Item& item, const RowRange& range) {
    const Encoding& encoding = *item.tensor->encoding;
    const uint64_t row_bytes = *encoding.to->BytesFor(encoding.row_values);
    const uint64_t step = RowsPerUnit(encoding, size_);
    for (uint64_t at = 0; at < range.count; at += step) {
      const RowRange piece = range.Part(at, std::min(step, range.count - at));
      units_.push_back(
          {{}, piece, piece.count * row_bytes, item.tensor, 0, nullptr, item.Targets()});
    }
  }

  // Source bytes per unit.
  uint64_t Step(const Item& item) const {
    if (item.tensor == nullptr || !item.tensor->encoding) return size_.chunk;
    const Encoding& encoding = *item.tensor->encoding;
    return RowsPerUnit(encoding, size_) * RowSize(encoding);
  }

  bool Merges(const Item& item, const SourceRange& range) const {
    const PackUnit& last = units_.back();
    if (last.tensor != item.tensor || last.copied != item.copied || last.reads.empty() ||
        !item.IsFor(last.targets) || last.bytes + range.bytes > Step(item)) {
      return false;
    }
    const SourceRange& before = last.reads.back();
    // Between two experts of one target, another target may have a third, so a shared unit holds
    // the rows of only one expert.
    if (item.tensor != nullptr) {
      return item.TargetCount() == 1 || before.order == range.order;
    }
    if (!item.joins || before.file != range.file || range.offset < before.offset + before.bytes)
      return false;
    const uint64_t gap = GapBefore(range);
    return gap == 0 || (size_.far && IsCheapGap(gap, gaps_, last.bytes + range.bytes));
  }

  const UnitSize& size_;
  std::vector<PackUnit>& units_;
  uint64_t gaps_ = 0;  // between the reads of the last unit
};

// The items of all outputs, one output after another. If several outputs need the same thing, the
// first one's item represents the others.
struct ItemLists {
  std::vector<Item> items;
  std::vector<uint32_t> owner;  // of each item; itself, unless another represents it
  std::vector<size_t> begin;    // of each output's items, and finally the end
};

// Collects the items of all outputs in `out`, and in `shareable` the indexes of the items that
// other outputs may need as well.
void CollectItems(const std::vector<OutputFile>& outputs, const std::vector<size_t>& first_tensor,
                  ItemLists& out, std::vector<uint32_t>& shareable) {
  size_t most = 0;
  for (const OutputFile& output : outputs) most += CountItems(output);
  out.items.reserve(most);
  for (uint32_t output = 0; output < outputs.size(); ++output) {
    const size_t begin = out.items.size();
    out.begin.push_back(begin);
    AddItems(outputs[output], first_tensor[output], output, out.items);
    if (!Ascend(std::span(out.items).subspan(begin))) continue;
    for (size_t i = begin; i < out.items.size(); ++i) {
      // Literals have an empty range, so all of them would count as the same.
      if (!IsEmpty(out.items[i])) shareable.push_back(static_cast<uint32_t>(i));
    }
  }
  out.begin.push_back(out.items.size());
}

ItemLists ShareItems(const std::vector<OutputFile>& outputs,
                     const std::vector<size_t>& first_tensor) {
  ItemLists out;
  std::vector<uint32_t> shareable;
  CollectItems(outputs, first_tensor, out, shareable);
  out.owner.resize(out.items.size());
  std::iota(out.owner.begin(), out.owner.end(), 0u);
  std::sort(shareable.begin(), shareable.end(), [&](uint32_t a, uint32_t b) {
    return std::pair(KeyOf(out.items[a]), a) < std::pair(KeyOf(out.items[b]), b);
  });
  for (size_t i = 1; i < shareable.size(); ++i) {
    const uint32_t before = out.owner[shareable[i - 1]];
    const uint32_t index = shareable[i];
    if (KeyOf(out.items[before]) != KeyOf(out.items[index])) continue;
    Item& known = out.items[before];
    out.owner[index] = before;
    known.more_targets.push_back(out.items[index].first_target);
    known.joins = known.joins && out.items[index].joins;
  }
  return out;
}

}  // namespace

PackSchedule::PackSchedule(const std::vector<OutputFile>& outputs,
                           const std::vector<size_t>& first_tensor, const UnitSize& size)
    : lanes_(outputs.size()) {
  const ItemLists lists = ShareItems(outputs, first_tensor);
  // An item belongs to the lane of its first target, which merges small items and cuts large ones;
  // the other targets then use the same units.
  std::vector<std::pair<uint32_t, uint32_t>> pieces(lists.items.size());  // begin and end in units_
  UnitBuilder builder(size, units_);
  for (uint32_t output = 0; output < outputs.size(); ++output) {
    bool follows = false;
    for (size_t i = lists.begin[output]; i < lists.begin[output + 1]; ++i) {
      const bool right_after = follows;
      follows = lists.owner[i] == i;
      if (!follows) continue;
      const auto begin = static_cast<uint32_t>(units_.size());
      builder.Add(lists.items[i], right_after);
      pieces[i] = {begin, static_cast<uint32_t>(units_.size())};
    }
  }
  for (uint32_t output = 0; output < outputs.size(); ++output) {
    for (size_t i = lists.begin[output]; i < lists.begin[output + 1]; ++i) {
      const auto [begin, end] = pieces[lists.owner[i]];
      for (uint32_t unit = begin; unit < end; ++unit) lanes_[output].units.push_back(unit);
    }
  }
  remaining_ = units_.size();
}

bool PackSchedule::Ready(const PackUnit& unit) const {
  return std::all_of(unit.targets.begin(), unit.targets.end(), [&](uint32_t target) {
    const Lane& lane = lanes_[target];
    return &units_[lane.units[lane.started]] == &unit;
  });
}

const PackUnit* PackSchedule::Start() {
  const Lane* best = nullptr;
  const auto rank = [](const Lane& lane) {
    // Lanes with the fewest units in progress come first, then those with the fewest bytes:
    // otherwise units of one lane that wait for their turn could occupy all workers.
    return std::pair(lane.started - lane.written, lane.started_bytes);
  };
  for (const Lane& lane : lanes_) {
    if (lane.started == lane.units.size()) continue;
    if (best != nullptr && rank(lane) >= rank(*best)) continue;
    if (Ready(units_[lane.units[lane.started]])) best = &lane;
  }
  if (best == nullptr) return nullptr;
  const PackUnit& unit = units_[best->units[best->started]];
  for (const uint32_t target : unit.targets) {
    ++lanes_[target].started;
    lanes_[target].started_bytes += unit.bytes;
  }
  return &unit;
}

bool PackSchedule::IsTurn(const PackUnit& unit) const {
  return std::all_of(unit.targets.begin(), unit.targets.end(), [&](uint32_t target) {
    const Lane& lane = lanes_[target];
    return &units_[lane.units[lane.written]] == &unit;
  });
}

void PackSchedule::Done(const PackUnit& unit) {
  for (const uint32_t target : unit.targets) ++lanes_[target].written;
  --remaining_;
}

}  // namespace moepack
