// Scores the tokens of a window, a slice of logits at a time.
#pragma once

#include <cstdint>
#include <span>

#include "runtime-shim/eval/evaluate.h"
#include "runtime-shim/profile/windows.h"

namespace moepack::runtime {

// Tokens of a window that run together, and which of their rows are scored.
struct Chunk {
  std::span<const uint32_t> tokens;
  uint32_t first_row = 0, end_row = 0;
  std::span<const uint32_t> targets;  // of the rows
  bool scored() const { return end_row > first_row; }
};
// At most `most` tokens from `first` on. Borrows the window.
Chunk CutChunk(const Window& window, uint32_t first, uint32_t most);

// Logits of a chunk's rows from `first` on, one list for each run of the distribution.
struct ChunkLogits {
  uint32_t first = 0, width = 0;
  std::span<const std::span<const float>> own;
  bool full = false;                 // the unmasked run is the first of them
  std::span<const float> reference;  // of the whole chunk, or empty
};
// Adds the figures of the scored rows among them.
void AddScores(const Chunk& chunk, const ChunkLogits& logits, SessionMeasure& measure);

// Adds what was measured of a window to what was measured of the windows before it.
void Append(SessionMeasure&& window, SessionMeasure& session);

}  // namespace moepack::runtime
