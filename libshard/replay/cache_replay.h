// What caches of experts would have hit while a trace was made.
//
// Every layer has its own cache with a number of slots, each for one expert of that layer. A
// request is the experts of one token (or of several that run at once). All of them are looked up
// first; missing ones are read into a buffer beside the slots, and then the policy decides what
// stays. So there may be fewer slots than a token has experts, and no policy has to keep what was
// read. All caches start empty.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/import/route_trace.h"

namespace moepack {

enum class CachePolicy : uint8_t {
  kLru,     // keeps the most recently used
  kLfu,     // keeps the most frequently used since the start; among equals the most recent
  kStatic,  // keeps the best experts of statistics, and no others
  kOracle,  // keeps what will be used soonest (Belady's MIN): no policy hits more often
};
inline constexpr std::array kCachePolicyNames = {"lru", "lfu", "static", "oracle"};

// What reading one expert costs.
struct ExpertReads {
  uint64_t bytes = 0;        // of its tensors
  uint64_t block_bytes = 0;  // of the disk blocks that hold them
  uint64_t reads = 0;        // ranges of consecutive blocks
  bool operator==(const ExpertReads&) const = default;
};
// By index of the layer in the trace, then by expert id.
using ExpertLayout = std::vector<std::vector<ExpertReads>>;

// Lookups of one phase. An expert that several tokens of one request chose is looked up once.
struct CacheCounts {
  uint64_t lookups = 0, hits = 0;
  ExpertReads misses;  // summed over all misses; zero without a layout
  CacheCounts& operator+=(const CacheCounts& other);
  bool operator==(const CacheCounts&) const = default;
};

struct ReplayOptions {
  std::vector<CachePolicy> policies;
  // For each cache size, the slots of every layer of the trace. More slots than experts count as
  // slots for all of them.
  std::vector<std::vector<uint32_t>> slots;
  uint32_t prefill_batch = 1;  // tokens of a prompt that run at once; at least 1
  // Steps before this one fill the caches and are not counted.
  uint32_t first_counted = 0;
  // For kStatic, by index of the layer: all experts, best first.
  std::vector<std::vector<uint32_t>> best_first;
  const ExpertLayout* layout = nullptr;  // borrowed; null: bytes are unknown
  size_t jobs = 1;
};

struct ReplayRow {
  CachePolicy policy = CachePolicy::kLru;
  size_t size = 0;                    // index into ReplayOptions::slots
  std::array<CacheCounts, 2> phases;  // by Phase, summed over layers
  CacheCounts all() const;
  bool operator==(const ReplayRow&) const = default;
};

// Simulates all policies for all sizes: rows by size, then policy. LRU, LFU and static need one
// pass for all sizes, because a larger cache holds everything that a smaller one holds (Mattson and
// others, 1970); the oracle needs one pass each. kInterrupted if the user stops it. REQUIRES: the
// sizes of the lists fit the trace.
Result<std::vector<ReplayRow>> ReplayTrace(const RouteTrace& trace, const ReplayOptions& options);

// The number of steps from `first` on, by Phase.
std::array<uint64_t, 2> CountSteps(const RouteTrace& trace, uint32_t first);

// Experts by how often steps before `end` chose them, best first, by index of the layer; ties go to
// the lower id.
std::vector<std::vector<uint32_t>> MostChosen(const RouteTrace& trace, uint32_t end);

}  // namespace moepack
