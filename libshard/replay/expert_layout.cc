#include "libshard/replay/expert_layout.h"

#include <algorithm>
#include <tuple>

#include "libshard/base/text/text.h"
#include "libshard/pack/slice.h"

namespace moepack {
namespace {

uint64_t LargestOf(const std::vector<ExpertReads>& experts) {
  uint64_t bytes = 0;
  for (const ExpertReads& reads : experts) bytes = std::max(bytes, reads.bytes);
  return bytes;
}

}  // namespace

ExpertReads ReadsOf(std::vector<SourceRange> ranges) {
  // After sorting, ranges that share a block are neighbours.
  std::sort(ranges.begin(), ranges.end(), [](const SourceRange& a, const SourceRange& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  ExpertReads reads;
  uint32_t file = 0;
  uint64_t end = 0;  // of the previous read, in blocks
  for (const SourceRange& range : ranges) {
    if (range.bytes == 0) continue;
    reads.bytes += range.bytes;
    uint64_t first = range.offset / kDiskBlock;
    const uint64_t last = (range.offset + range.bytes - 1) / kDiskBlock + 1;
    const bool joined = reads.reads > 0 && range.file == file && first <= end;
    if (joined) first = std::min(end, last);
    if (!joined) ++reads.reads;
    reads.block_bytes += (last - first) * kDiskBlock;
    end = joined ? std::max(end, last) : last;
    file = range.file;
  }
  return reads;
}

Result<ExpertRanges> RangesOf(const MoeModel& model) {
  if (model.checkpoint().names_only() || model.checkpoint().promised())
    return Error{Code::kUnsupported,
                 Cat(model.checkpoint().source().string(),
                     ": expected tensors with their places in files, found names alone"),
                 "name the checkpoint or GGUF itself"};
  ExpertRanges ranges;
  for (const MoeLayer& layer : model.layers()) ranges[layer.layer].resize(layer.expert_count);
  for (const ModelTensor& tensor : model.tensors()) {
    if (tensor.part != Part::kExpert || !tensor.layer) continue;
    const TensorEntry& entry = model.entry(tensor);
    std::vector<std::vector<SourceRange>>& experts = ranges[*tensor.layer];
    if (tensor.expert) {
      experts[*tensor.expert].push_back({entry.file, entry.offset, entry.bytes, 0});
      continue;
    }
    if (!tensor.axis) continue;  // one tensor for all: it is read only once
    const auto expert_count = static_cast<uint32_t>(experts.size());
    for (uint32_t expert = 0; expert < expert_count; ++expert) {
      const auto slices = SliceAxis(entry, *tensor.axis, expert_count, {expert});
      experts[expert].insert(experts[expert].end(), slices.begin(), slices.end());
    }
  }
  return ranges;
}

Result<ExpertLayout> LayoutFor(const std::string& where, const std::string& source,
                               const ExpertRanges& ranges,
                               const std::vector<MoeLayerShape>& layers) {
  ExpertLayout layout;
  for (const MoeLayerShape& layer : layers) {
    const auto found = ranges.find(layer.layer);
    const size_t expert_count = found == ranges.end() ? 0 : found->second.size();
    if (expert_count != layer.expert_count)
      return Error{Code::kMismatch,
                   Cat(where, ": layer ", layer.layer, ": experts: expected ", expert_count,
                       " as in ", source, ", found ", layer.expert_count)};
    layout.emplace_back();
    for (const auto& expert : found->second) layout.back().push_back(ReadsOf(expert));
  }
  return layout;
}

std::optional<uint32_t> SlotsWithin(uint64_t bytes, const ExpertLayout& layout) {
  // By bisection, as more slots never take fewer bytes.
  uint32_t low = 0, high = 0;
  for (const auto& layer : layout) high = std::max(high, static_cast<uint32_t>(layer.size()));
  while (low < high) {
    const uint32_t middle = low + (high - low + 1) / 2;
    if (BytesOfSlots(middle, layout) <= bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  if (low == 0) return std::nullopt;
  return low;
}

uint64_t BytesOfSlots(uint32_t slots, const ExpertLayout& layout) {
  uint64_t bytes = 0;
  for (const auto& layer : layout)
    bytes += std::min<uint64_t>(slots, layer.size()) * LargestOf(layer);
  return bytes;
}

}  // namespace moepack
