// The compressor of keys: the tokens of a block become one key, in plain floats. Sources: the
// report of DeepSeek-V4; llama.cpp's src/models/deepseek4.cpp and llama-kv-cache-dsv4.cpp for the
// order of operations and for the tokens of a block.
//
// Each value of a key is a mean of as many values of the tokens, weighted by the softmax of their
// scores. Where blocks overlap, the first half of a token's values and scores is for the key of the
// block after its own, and the second half for that of its own.
//
// The host computes it for every executor, as it computes recurrences. Matrix products before it
// run on the executor.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "libshard/graph/shapes.h"

namespace moepack::runtime {

// The small tensors of a layer.
struct CompressorConstants {
  std::vector<float> places;  // ratio x columns: added to the scores, by the place in the block
  std::vector<float> norm;    // width
  float eps = 0;
};

// The last tokens: those of the block that is not complete, and with overlaps those before it.
struct CompressorState {
  std::vector<float> values, scores;  // shape.rows() x columns; token t is in row t % rows
  uint32_t length = 0;                // tokens that went into it

  // Makes the state of no tokens.
  void Clear(const CompressorShape& shape);
};

// The projections' results for one token.
struct CompressorToken {
  std::span<const float> values, scores;  // shape.columns() each
};

// Adds a token, and returns whether it completes a block. If so, `key` gets the block's key, normed
// and not rotated. REQUIRES: sizes fit the shape.
bool CompressToken(const CompressorShape& shape, const CompressorConstants& constants,
                   const CompressorToken& token, CompressorState& state, std::span<float> key);

}  // namespace moepack::runtime
