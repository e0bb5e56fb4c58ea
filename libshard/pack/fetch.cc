#include "libshard/pack/fetch.h"

#include <algorithm>
#include <cstring>

namespace moepack {
namespace {

constexpr uint64_t kMostGap = 1u << 20;
// Gaps cost at most a 128th more bytes than wanted.
constexpr uint64_t kGapsPerWanted = 128;

uint64_t BytesOf(std::span<const SourceRange> ranges) {
  uint64_t bytes = 0;
  for (const SourceRange& range : ranges) bytes += range.bytes;
  return bytes;
}

// Moves the ranges of a fetch, which begins at `data`, together.
void CloseGaps(const Fetch& fetch, std::span<const SourceRange> ranges, std::byte* data) {
  uint64_t at = 0;
  for (const SourceRange& range : ranges.subspan(fetch.first, fetch.count)) {
    if (range.bytes == 0) continue;
    std::memmove(data + at, data + (range.offset - fetch.offset), range.bytes);
    at += range.bytes;
  }
}

}  // namespace

bool IsCheapGap(uint64_t gap, uint64_t gaps, uint64_t wanted) {
  return gap <= kMostGap && gap + gaps <= wanted / kGapsPerWanted;
}

std::vector<Fetch> PlanFetches(std::span<const SourceRange> ranges) {
  const uint64_t wanted = BytesOf(ranges);
  std::vector<Fetch> fetches;
  uint64_t gaps = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const SourceRange& range = ranges[i];
    if (range.bytes == 0) continue;
    if (!fetches.empty()) {
      Fetch& last = fetches.back();
      const uint64_t end = last.offset + last.bytes;
      const bool behind = last.file == range.file && range.offset >= end;
      if (behind && (range.offset == end || IsCheapGap(range.offset - end, gaps, wanted))) {
        gaps += range.offset - end;
        last.bytes = range.offset + range.bytes - last.offset;
        last.count = i + 1 - last.first;
        continue;
      }
    }
    fetches.push_back({range.file, range.offset, range.bytes, i, 1});
  }
  return fetches;
}

Status ReadRanges(std::span<const ByteSourcePtr> sources, std::span<const SourceRange> ranges,
                  std::vector<std::byte>& out) {
  const uint64_t bytes = BytesOf(ranges);
  out.resize(bytes);
  uint64_t at = 0;
  for (const Fetch& fetch : PlanFetches(ranges)) {
    const ByteSource& source = *sources[fetch.file];
    const auto parts = ranges.subspan(fetch.first, fetch.count);
    const uint64_t wanted = BytesOf(parts);
    if (fetch.bytes == wanted || source.far()) {
      // The gaps need room until they are closed.
      out.resize(std::max<uint64_t>(out.size(), at + fetch.bytes));
      SHARD_CHECK(source.ReadAt(fetch.offset, std::span(out).subspan(at, fetch.bytes)));
      CloseGaps(fetch, ranges, out.data() + at);
      at += wanted;
      continue;
    }
    for (const SourceRange& part : parts) {
      SHARD_CHECK(source.ReadAt(part.offset, std::span(out).subspan(at, part.bytes)));
      at += part.bytes;
    }
  }
  out.resize(bytes);
  return Ok();
}

}  // namespace moepack
