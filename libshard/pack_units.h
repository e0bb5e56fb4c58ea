// The order of work of a packing run: which source range is read next, and which outputs get it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libshard/slice.h"

namespace shard {

// One read. Its bytes are the next bytes of every target.
struct PackUnit {
  uint32_t file = 0;
  uint64_t offset = 0, bytes = 0;
  std::vector<uint32_t> targets;  // indexes of outputs, ascending
};

// Hands out units so that every output gets its bytes in order, by one worker at a time, and a
// range that several outputs hold is read once. Not thread-safe: the caller locks.
class PackSchedule {
 public:
  // `first_tensor[i]` is the first tensor of output i that is still to be written. No unit is
  // larger than `chunk`.
  PackSchedule(const std::vector<OutputFile>& outputs, const std::vector<size_t>& first_tensor,
               uint64_t chunk);

  // A unit whose targets are all idle, preferring the output that is furthest behind; its targets
  // are busy until Done. No value when nothing can start now.
  const PackUnit* Start();
  void Done(const PackUnit& unit);
  bool finished() const { return remaining_ == 0; }

 private:
  struct Lane {
    std::vector<uint32_t> units;  // in the order of the output's bytes
    size_t next = 0;
    uint64_t started_bytes = 0;
    bool busy = false;
  };
  bool Ready(const PackUnit& unit) const;

  std::vector<PackUnit> units_;
  std::vector<Lane> lanes_;
  size_t remaining_ = 0;
};

}  // namespace shard
