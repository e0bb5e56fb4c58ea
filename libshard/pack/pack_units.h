// Decides the order of work of a packing run: which source ranges are read next, and which outputs
// get the result.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/pack/slice.h"

namespace moepack {

// One step of the run: reads some ranges, and appends the result to every target.
struct PackUnit {
  // A single one for copies, unless the source is far; none for a literal tensor and for rows made
  // by a reader.
  std::vector<SourceRange> reads;
  RowRange rows;       // of the reader of `tensor`, if it has one
  uint64_t bytes = 0;  // of all reads, or of the rows as they are written
  // how the bytes are made (as in the first target); null: they are copied
  const OutputTensor* tensor = nullptr;
  uint64_t first_row = 0;                // the row of `tensor` at which the first read begins
  const OutputTensor* copied = nullptr;  // set if the copied bytes are inspected for NaN
  std::vector<uint32_t> targets;         // indexes of outputs, ascending
};

struct UnitSize {
  uint64_t chunk = 0;
  uint64_t scattered = 0;  // at least as large
  // Sources are far: copies with a cheap gap between them (fetch.h) share a unit, and `chunk` is
  // the combined room for what a unit reads and makes.
  bool far = false;
};

// Hands out units so that every output gets its bytes in order, and a range that several outputs
// contain is read and encoded once. Not thread-safe, so the caller locks. Borrows the outputs.
//
// Several units of one output may be in progress at a time; each is written when its turn comes.
// This cannot deadlock: a unit starts only after all units before it in all its outputs, so the one
// that started first never waits for another.
class PackSchedule {
 public:
  // `first_tensor[i]` is the first tensor of output i that is still to be written. No unit reads or
  // makes more than `size.chunk` bytes, unless a single row is larger; a unit of a reader's rows
  // takes at most twice that (once for far sources) for what it reads, decodes and makes together,
  // and twice `size.scattered` if the rows run across what is read (RowRoom).
  PackSchedule(const std::vector<OutputFile>& outputs, const std::vector<size_t>& first_tensor,
               const UnitSize& size);

  // Returns the next unit of the output that is furthest behind; null if none can start now.
  const PackUnit* Start();
  // True if everything before `unit` has been written in all its targets.
  bool IsTurn(const PackUnit& unit) const;
  // REQUIRES: IsTurn(unit).
  void Done(const PackUnit& unit);
  bool finished() const { return remaining_ == 0; }
  const std::vector<PackUnit>& units() const { return units_; }

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
