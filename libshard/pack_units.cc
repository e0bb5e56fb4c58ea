#include "libshard/pack_units.h"

#include <algorithm>
#include <map>
#include <tuple>

namespace shard {
namespace {

using RangeKey = std::tuple<uint32_t, uint64_t, uint64_t>;  // file, offset, bytes

// The source ranges of an output in the order of its bytes, from tensor `first` on.
std::vector<SourceRange> RangesOf(const OutputFile& output, size_t first) {
  std::vector<SourceRange> out;
  for (size_t i = first; i < output.tensors.size(); ++i) {
    for (const SourceRange& range : output.tensors[i].sources) {
      if (range.bytes > 0) out.push_back(range);
    }
  }
  return out;
}

// Outputs that read their sources front to back agree on one order, so they can share reads without
// waiting for each other in a circle.
bool FrontToBack(const std::vector<SourceRange>& ranges) {
  return std::is_sorted(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
}

// `b` continues `a` in the source and goes to the same outputs, where it follows `a` too.
bool Continues(const PackUnit& a, const PackUnit& b, uint64_t chunk) {
  return a.file == b.file && a.offset + a.bytes == b.offset && a.bytes + b.bytes <= chunk &&
         a.targets == b.targets;
}

}  // namespace

PackSchedule::PackSchedule(const std::vector<OutputFile>& outputs,
                           const std::vector<size_t>& first_tensor, uint64_t chunk)
    : lanes_(outputs.size()) {
  std::vector<PackUnit> whole;  // before cutting to chunks
  std::vector<std::vector<uint32_t>> order(outputs.size());
  std::map<RangeKey, uint32_t> shared;
  for (uint32_t output = 0; output < outputs.size(); ++output) {
    const std::vector<SourceRange> ranges = RangesOf(outputs[output], first_tensor[output]);
    const bool share = FrontToBack(ranges);
    for (const SourceRange& range : ranges) {
      const auto index = static_cast<uint32_t>(whole.size());
      const RangeKey key(range.file, range.offset, range.bytes);
      const auto [at, added] = share ? shared.emplace(key, index) : std::pair(shared.end(), true);
      if (added) whole.push_back({range.file, range.offset, range.bytes, {}});
      const uint32_t unit = added ? index : at->second;
      whole[unit].targets.push_back(output);
      order[output].push_back(unit);
    }
  }
  // A unit belongs to the lane of its first target, which merges small units and cuts large ones;
  // the other targets then follow the same pieces.
  std::vector<std::pair<uint32_t, uint32_t>> pieces(whole.size());  // begin and end in units_
  for (uint32_t output = 0; output < outputs.size(); ++output) {
    bool follows = false;  // the last of units_ comes right before the next range in this output
    for (const uint32_t index : order[output]) {
      const PackUnit& unit = whole[index];
      const bool merges = follows && Continues(units_.back(), unit, chunk);
      follows = unit.targets[0] == output;
      if (!follows) continue;
      if (merges) {
        units_.back().bytes += unit.bytes;
        continue;
      }
      pieces[index].first = static_cast<uint32_t>(units_.size());
      for (uint64_t at = 0; at < unit.bytes; at += chunk) {
        units_.push_back(
            {unit.file, unit.offset + at, std::min(chunk, unit.bytes - at), unit.targets});
      }
      pieces[index].second = static_cast<uint32_t>(units_.size());
    }
  }
  for (uint32_t output = 0; output < outputs.size(); ++output) {
    for (const uint32_t index : order[output]) {
      for (uint32_t unit = pieces[index].first; unit < pieces[index].second; ++unit) {
        lanes_[output].units.push_back(unit);
      }
    }
  }
  remaining_ = units_.size();
}

bool PackSchedule::Ready(const PackUnit& unit) const {
  return std::all_of(unit.targets.begin(), unit.targets.end(), [&](uint32_t target) {
    const Lane& lane = lanes_[target];
    return !lane.busy && &units_[lane.units[lane.next]] == &unit;
  });
}

const PackUnit* PackSchedule::Start() {
  const PackUnit* best = nullptr;
  uint64_t least = 0;
  for (const Lane& lane : lanes_) {
    if (lane.busy || lane.next == lane.units.size()) continue;
    if (best != nullptr && lane.started_bytes >= least) continue;
    const PackUnit& unit = units_[lane.units[lane.next]];
    if (!Ready(unit)) continue;
    best = &unit;
    least = lane.started_bytes;
  }
  if (best == nullptr) return nullptr;
  for (const uint32_t target : best->targets) {
    lanes_[target].busy = true;
    lanes_[target].started_bytes += best->bytes;
  }
  return best;
}

void PackSchedule::Done(const PackUnit& unit) {
  for (const uint32_t target : unit.targets) {
    lanes_[target].busy = false;
    ++lanes_[target].next;
  }
  --remaining_;
}

}  // namespace shard
