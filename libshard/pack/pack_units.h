// The order of work of a packing run: which source ranges are read next, and which outputs get what
// is made of them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/pack/slice.h"

namespace moepack {

// One step. What it makes of its reads are the next bytes of every target.
struct PackUnit {
  // A single one for copies; none for a literal tensor and for rows that a reader makes.
  std::vector<SourceRange> reads;
  RowRange rows;                         // of the reader of `tensor`, if it has one
  uint64_t bytes = 0;                    // of all reads, or of the rows as they are written
  const OutputTensor* tensor = nullptr;  // how to make the bytes, in its first target; null: a copy
  uint64_t first_row = 0;                // of `tensor`, which the first read holds
  const OutputTensor* copied = nullptr;  // whose bytes a copy holds, when they are to be inspected
  std::vector<uint32_t> targets;         // indexes of outputs, ascending
};

struct UnitSize {
  uint64_t chunk = 0;
  uint64_t scattered = 0;  // at least as large
};

// Hands out units so that every output can get its bytes in order, and a range that several outputs
// hold is read (and encoded) once. Not thread-safe: the caller locks. Borrows the outputs.
//
// Units of one output may be under way at the same time; they are written when it is their turn. A
// unit starts only after the ones before it in all its outputs, so the one that started first never
// waits for another.
class PackSchedule {
 public:
  // `first_tensor[i]` is the first tensor of output i that is still to be written. No unit reads or
  // makes more than `size.chunk` bytes, unless a single row is larger; a unit of a reader's rows
  // takes at most twice that for what it reads, decodes and makes together, and twice
  // `size.scattered` where the rows lie across what is read (RowRoom).
  PackSchedule(const std::vector<OutputFile>& outputs, const std::vector<size_t>& first_tensor,
               const UnitSize& size);

  // The next unit of some output, preferring the output that is furthest behind. No value when all
  // have started.
  const PackUnit* Start();
  // Whether everything before `unit` is written in all its targets.
  bool IsTurn(const PackUnit& unit) const;
  // REQUIRES: IsTurn(unit).
  void Done(const PackUnit& unit);
  bool finished() const { return remaining_ == 0; }

 private:
  struct Lane {
    std::vector<uint32_t> units;  // in the order of the output's bytes
    size_t started = 0, written = 0;
    uint64_t started_bytes = 0;
  };
  bool Ready(const PackUnit& unit) const;

  std::vector<PackUnit> units_;
  std::vector<Lane> lanes_;
  size_t remaining_ = 0;
};

}  // namespace moepack
