#include "libshard/tasks/fragments.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/bytes.h"

namespace moepack {
namespace {

// How a tensor may be cut. Units are source bytes, or rows if a reader makes them.
struct Cuts {
  uint64_t grain = kPageBytes;  // units between two possible cuts
  // Counted from the tensor's start, not from that of each range: an expert may be in several
  // ranges.
  bool across_ranges = false;
  uint64_t row_units = 1, row_bytes = 1;  // of a row in the sources, and as it is written

  uint64_t Written(uint64_t units) const { return units / row_units * row_bytes; }
};

Cuts CutsOf(const OutputTensor& tensor) {
  Cuts cuts;
  if (!tensor.encoding) return cuts;
  const Encoding& encoding = *tensor.encoding;
  cuts.row_bytes = *encoding.to->BytesFor(encoding.row_values);
  if (encoding.reader == nullptr) cuts.row_units = *encoding.from->BytesFor(encoding.row_values);
  cuts.grain = cuts.row_units;
  // A reader counts rows in the whole tensor and finds the importance of each itself.
  const bool sliced = encoding.reader == nullptr && encoding.importance != nullptr;
  if (!sliced || encoding.rows_per_slice == 0) return cuts;
  cuts.grain *= encoding.rows_per_slice;
  cuts.across_ranges = true;
  return cuts;
}

// Walks over the ranges of a tensor, and ends a fragment where it is large enough and may be cut.
class Cutter {
 public:
  Cutter(const Cuts& cuts, uint64_t size, const Fragment& place, std::vector<Fragment>& out)
      : cuts_(cuts), next_(place), out_(out) {
    const uint64_t units = size / cuts.row_bytes * cuts.row_units;
    most_ = std::max(cuts.grain, units / cuts.grain * cuts.grain);
  }

  // Adds `units` of range number `index`, of the expert `order`.
  void Add(uint32_t index, uint64_t units, uint64_t order) {
    for (uint64_t at = 0; at < units;) {
      const uint64_t rest = (cuts_.across_ranges ? position_ : at) % cuts_.grain;
      // Two outputs may contain the same expert: it must be the same fragment in both.
      if (rest == 0 && (next_.taken >= most_ || order != order_)) Flush();
      if (next_.taken == 0) {
        next_.first_range = index;
        next_.skip = at;
        order_ = order;
      }
      uint64_t step = cuts_.grain - rest;
      if (rest == 0) step = std::max(step, (most_ - next_.taken) / cuts_.grain * cuts_.grain);
      step = std::min(step, units - at);
      next_.taken += step;
      position_ += step;
      at += step;
    }
  }

  void Flush() {
    if (next_.taken == 0) return;
    next_.bytes = cuts_.Written(next_.taken);
    out_.push_back(next_);
    next_.offset += next_.bytes;
    next_.taken = 0;
  }

 private:
  const Cuts& cuts_;
  Fragment next_;
  std::vector<Fragment>& out_;
  uint64_t most_ = 0, position_ = 0, order_ = 0;
};

uint64_t SizeOf(const SourceRange& range) { return range.bytes; }
uint64_t SizeOf(const RowRange& range) { return range.count; }

template <class Range>
void AddRanges(const std::vector<Range>& ranges, Cutter& cutter) {
  for (uint32_t i = 0; i < ranges.size(); ++i) cutter.Add(i, SizeOf(ranges[i]), ranges[i].order);
}

template <class Range>
std::vector<Range> Taken(const std::vector<Range>& ranges, const Fragment& fragment) {
  std::vector<Range> out;
  uint64_t skip = fragment.skip, left = fragment.taken;
  for (size_t i = fragment.first_range; left > 0; ++i) {
    const uint64_t count = std::min(left, SizeOf(ranges[i]) - skip);
    if (count > 0) out.push_back(ranges[i].Part(skip, count));
    left -= count;
    skip = 0;
  }
  return out;
}

// Importance is found by a slice's number in the tensor, or by the id of its expert.
ExpertIds SlicesFrom(const OutputTensor& tensor, uint64_t first) {
  if (!tensor.expert_ids.empty()) {
    return {tensor.expert_ids.begin() + static_cast<std::ptrdiff_t>(first),
            tensor.expert_ids.end()};
  }
  const Encoding& encoding = *tensor.encoding;
  const uint64_t slice_bytes =
      encoding.rows_per_slice * *encoding.to->BytesFor(encoding.row_values);
  ExpertIds ids(tensor.entry.bytes / slice_bytes - first);
  std::iota(ids.begin(), ids.end(), static_cast<uint32_t>(first));
  return ids;
}

}  // namespace

void CutTensor(const OutputTensor& tensor, uint64_t size, const Fragment& place,
               std::vector<Fragment>& out) {
  if (tensor.entry.bytes == 0) return;
  if (tensor.literal) {
    out.push_back(place);
    out.back().bytes = tensor.entry.bytes;
    return;
  }
  const Cuts cuts = CutsOf(tensor);
  Cutter cutter(cuts, size, place, out);
  AddRanges(tensor.sources, cutter);
  AddRanges(tensor.rows, cutter);
  cutter.Flush();
}

OutputTensor FragmentTensor(const OutputTensor& tensor, const Fragment& fragment, uint64_t offset) {
  OutputTensor out;
  out.entry.name = tensor.entry.name;
  out.entry.dtype = tensor.entry.dtype;
  out.entry.format = tensor.entry.format;
  out.entry.offset = offset;
  out.entry.bytes = fragment.bytes;
  out.inspected = tensor.inspected;
  out.encoding = tensor.encoding;
  out.literal = tensor.literal;
  if (tensor.literal) return out;
  const Cuts cuts = CutsOf(tensor);
  if (cuts.across_ranges)
    out.expert_ids = SlicesFrom(tensor, fragment.offset / cuts.Written(cuts.grain));
  if (tensor.rows.empty()) {
    out.sources = Taken(tensor.sources, fragment);
  } else {
    out.rows = Taken(tensor.rows, fragment);
  }
  return out;
}

namespace {

// The first position from `position` on that equals `place` modulo a page.
uint64_t Congruent(uint64_t position, uint64_t place) {
  return position + (place % kPageBytes + kPageBytes - position % kPageBytes) % kPageBytes;
}

void AddRun(const PieceRun& run, std::vector<PieceRun>& runs) {
  if (!runs.empty()) {
    PieceRun& last = runs.back();
    const bool follows = last.piece + last.bytes == run.piece && last.file + last.bytes == run.file;
    if (follows) {
      last.bytes += run.bytes;
      return;
    }
  }
  runs.push_back(run);
}

void AddFragment(const OutputTensor& tensor, const Fragment& fragment, Piece& piece) {
  const uint64_t place = tensor.entry.offset + fragment.offset;
  const uint64_t at = Congruent(piece.file.size, place);
  // What comes before the first tensor belongs to the header; a stream pads with zeros only after a
  // tensor.
  if (piece.file.tensors.empty()) piece.file.prefix.resize(at, '\0');
  piece.file.tensors.push_back(FragmentTensor(tensor, fragment, at));
  piece.file.size = at + fragment.bytes;
  AddRun({at, place, fragment.bytes}, piece.runs);
}

}  // namespace

std::vector<Piece> CutPieces(const std::vector<OutputFile>& outputs,
                             const std::vector<Fragment>& fragments, bool headers) {
  std::vector<Piece> pieces;
  size_t next = 0;
  for (uint32_t i = 0; i < outputs.size(); ++i) {
    Piece piece;
    piece.output = i;
    piece.file.path = outputs[i].path + kPieceSuffix;
    piece.file.role = outputs[i].role;
    piece.file.group = outputs[i].group;
    if (headers) {
      piece.file.prefix = outputs[i].prefix;
      piece.file.size = piece.file.prefix.size();
    }
    for (; next < fragments.size() && fragments[next].output == i; ++next) {
      AddFragment(outputs[i].tensors[fragments[next].tensor], fragments[next], piece);
    }
    if (headers || !piece.file.tensors.empty()) pieces.push_back(std::move(piece));
  }
  return pieces;
}

}  // namespace moepack
