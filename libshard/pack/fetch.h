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

// One request: ranges of a file that are close to each other, with the gaps between them.
struct Fetch {
  uint32_t file = 0;
  uint64_t offset = 0, bytes = 0;  // gaps included
  size_t first = 0, count = 0;     // of the ranges
};

// Whether fetching `gap` useless bytes is cheaper than another request: if it is at most 1 MiB and,
// together with the `gaps` bytes accepted before, at most a 128th of the `wanted` bytes.
bool IsCheapGap(uint64_t gap, uint64_t gaps, uint64_t wanted);

// The requests for `ranges`, in their order. Ranges of one file share a request if the gaps between
// them are cheap.
std::vector<Fetch> PlanFetches(std::span<const SourceRange> ranges);

// Reads the ranges into `out`, one after another. `ranges` name files by their index in `sources`;
// far sources get the requests of PlanFetches. Errors are those of ReadAt.
Status ReadRanges(std::span<const ByteSourcePtr> sources, std::span<const SourceRange> ranges,
                  std::vector<std::byte>& out);

}  // namespace moepack
