// Reading from another machine: few long requests instead of many short ones.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/format/output_file.h"

namespace moepack {

// One request: ranges of a file that lie close to each other, with the gaps between them.
struct Fetch {
  uint32_t file = 0;
  uint64_t offset = 0, bytes = 0;  // gaps included
  size_t first = 0, count = 0;     // of the ranges
};

// Whether it is cheaper to fetch `gap` bytes for nothing than to ask once more: at most 1 MiB, and
// together with `gaps` bytes that were accepted before less than a hundredth of what is `wanted`.
bool IsCheapGap(uint64_t gap, uint64_t gaps, uint64_t wanted);

// The requests for `ranges`, in their order. Ranges of one file whose gaps are cheap share one.
std::vector<Fetch> PlanFetches(std::span<const SourceRange> ranges);

// Reads the ranges into `out`, one after the other. `ranges` name files by their place in
// `sources`; sources that are far are asked as PlanFetches says. Errors are those of ReadAt.
Status ReadRanges(std::span<const ByteSourcePtr> sources, std::span<const SourceRange> ranges,
                  std::vector<std::byte>& out);

}  // namespace moepack
