// Shapes of a model's operations that its metadata state.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace moepack {

struct Activation {
  enum Kind : uint8_t {
    kSilu,           // silu(gate) * up
    kGelu,           // gelu(gate) * up, tanh form
    kClampedSilu,    // gpt-oss: g = min(gate, 7), u = clamp(up, -7, 7); g * sigmoid(1.702 g) * (u +
                     // 1)
    kSigmoid,        // sigmoid(gate) * up
    kSquaredRelu,    // max(gate, 0)^2; there is no up
    kLimitedSilu,    // Step-3.5: min(silu(gate), limit) * clamp(up, -limit, limit)
    kRelu,           // max(gate, 0) * up
    kSiluOfLimited,  // DeepSeek-V4: silu(min(gate, limit)) * clamp(up, -limit, limit)
    // Kimi-K3, with Bounded(x, b) = b * tanh(x / b): Bounded(gate, limit) * sigmoid(gate) *
    // Bounded(up, up_limit)
    kSitu,
  };
  Kind kind = kSilu;
  float limit = 0;     // for kLimitedSilu, kSiluOfLimited and kSitu
  float up_limit = 0;  // for kSitu; 0: `up` has no bound

  // A kind converts to an activation.
  constexpr Activation(Kind own = kSilu,  // NOLINT(google-explicit-constructor)
                       float largest = 0, float largest_up = 0)
      : kind(own), limit(largest), up_limit(largest_up) {}
  bool operator==(const Activation&) const = default;
};

// Which two values of a head are rotated together: neighbours (2i, 2i + 1), or halves (i, i + dims
// / 2).
enum class Pairing : uint8_t { kNeighbours, kHalves };

// The sizes of the state that a layer has instead of keys and values.
struct RecurrentShape {
  uint32_t kernel = 0;    // tokens that the convolution sees
  uint32_t channels = 0;  // that it runs over
  uint64_t memory = 0;    // numbers of the matrices of all heads
  // Of the whole state.
  uint64_t values() const { return uint64_t{std::max(kernel, 1u) - 1} * channels + memory; }
};

// Gated delta net (runtime-shim/model/recurrence.h). Query and key heads are `key_heads`, value
// heads a multiple of them; all are `width` wide.
struct DeltaShape {
  uint32_t key_heads = 0, value_heads = 0, width = 0;
  uint32_t kernel = 0;  // tokens that the convolution sees
  // Value head h belongs to key head h % key_heads (Qwen3.5), otherwise to h / (value heads per key
  // head).
  bool tiled = false;
  // The gate's sigmoid multiplies the normed result (Qwen4-Exp), otherwise its silu.
  bool sigmoid_gate = false;

  uint32_t channels() const { return (2 * key_heads + value_heads) * width; }
  uint32_t values() const { return value_heads * width; }
  // Each value head has a matrix of `width` rows (keys) and columns (values).
  RecurrentShape state() const { return {kernel, channels(), uint64_t{values()} * width}; }
  uint32_t KeyHeadOf(uint32_t head) const {
    return tiled ? head % key_heads : head / (value_heads / key_heads);
  }
  bool operator==(const DeltaShape&) const = default;
};

// Kimi delta attention (runtime-shim/model/kda.h): a delta net whose heads are all `width` wide,
// and whose decay is one number per channel of the keys.
struct KdaShape {
  uint32_t heads = 0, width = 0;
  uint32_t kernel = 0;    // tokens that the convolutions see
  float lower_bound = 0;  // of the decay's logarithm; below zero
  bool negative_rates =
      false;  // in the file (Kimi-K3); runtime-shim/model/kda.h has them above zero

  uint32_t values() const { return heads * width; }  // of queries, keys or values
  RecurrentShape state() const { return {kernel, 3 * values(), uint64_t{values()} * width}; }
  bool operator==(const KdaShape&) const = default;
};

// Mamba-2 (runtime-shim/model/recurrence.h). `heads` heads are `width` wide; heads / groups of them
// share inputs and outputs of the state.
struct MambaShape {
  uint32_t heads = 0, width = 0, groups = 0;
  uint32_t size = 0;    // of the state of one value of a head
  uint32_t kernel = 0;  // tokens that the convolution sees

  uint32_t inner() const { return heads * width; }
  uint32_t channels() const { return inner() + 2 * groups * size; }
  // Of the projection: gates, channels, time steps.
  uint32_t projected() const { return inner() + channels() + heads; }
  RecurrentShape state() const { return {kernel, channels(), uint64_t{inner()} * size}; }
  bool operator==(const MambaShape&) const = default;
};

// Attention to the blocks of keys that an indexer picks (runtime-shim/model/block_choice.h). The
// indexer has a query head for each key head, and one key for all of them. With `pooled`
// (runtime-shim/model/pooled_blocks.h) all its heads together pick for all key heads.
struct BlockShape {
  uint32_t heads = 0, width = 0;  // of the indexer
  uint32_t block = 0;             // keys of a block
  uint32_t picked = 0;            // blocks that a query sees
  uint32_t local = 0;             // the last of them that it sees in any case
  // Each complete block has one key, the mean of its tokens' keys (Qwen4-Exp); a query sees the
  // keys since the last complete block in any case.
  bool pooled = false;
  bool operator==(const BlockShape&) const = default;
};

// Short convolution (LFM2): the projection's first third times its last third goes through a
// convolution over `kernel` tokens, whose result is multiplied by the second third.
struct ConvolutionShape {
  uint32_t width = 0;
  uint32_t kernel = 0;  // tokens that the convolution sees

  uint32_t projected() const { return 3 * width; }
  RecurrentShape state() const { return {kernel, width, 0}; }
  bool operator==(const ConvolutionShape&) const = default;
};

// A layer that embeds the n-grams which end at a token (runtime-shim/model/ngram_embedding.h): a
// hash of each picks rows of a table.
struct NgramShape {
  uint32_t size = 0;      // tokens of the longest n-gram; 0: no layer embeds any
  uint32_t heads = 0;     // rows of the table that an n-gram of each length picks
  uint32_t width = 0;     // of a row
  uint32_t kernel = 0;    // tokens that the convolution sees, each `size` before the next
  uint32_t end = 0;       // this token and what precedes it are not seen
  uint32_t channels = 0;  // of all residual streams
  std::vector<uint64_t> multipliers;    // of the hash: one for each token
  std::vector<uint64_t> offsets, rows;  // the part of the table that each head picks from

  uint32_t picks() const { return size < 2 ? 0 : (size - 1) * heads; }
  RecurrentShape state() const {
    return {kernel == 0 ? 0 : (kernel - 1) * size + 1, channels, /*memory=*/0};
  }
  bool operator==(const NgramShape&) const = default;
};

// The indexer of sparse attention (DeepSeek-V3.2, GLM-5): its heads score the positions before a
// token by keys of its own, and attention sees the `top_k` best.
struct IndexerShape {
  uint32_t heads = 0;
  uint32_t width = 0;  // of a head, and of the one key
  uint32_t top_k = 0;
  uint32_t dims = 0;  // values at the start of each head that are rotated
  bool operator==(const IndexerShape&) const = default;
};

// Hyper-connections (runtime-shim/model/hyper_connections.h): the residual stream is `count`
// streams as wide as the model, which every block mixes anew. 0: there is one, which is not mixed.
struct StreamShape {
  uint32_t count = 0;
  uint32_t iterations = 0;  // of the normalisation of rows and columns
  float eps = 0;
  // Gated streams (Qwen4-Exp; runtime-shim/session/forward_gated_streams.cc): what a block reads is
  // the mean of the normed streams times gates, which go through this many values; layers have no
  // norms of their own.
  uint32_t low_rank = 0;
  bool gated() const { return low_rank > 0; }

  // Of the projection: weights of what a block reads, of what it writes, of what streams keep.
  uint32_t projected() const { return (2 + count) * count; }
  bool operator==(const StreamShape&) const = default;
};

// The compressor of keys (runtime-shim/model/key_compressor.h): `ratio` tokens become one key.
struct CompressorShape {
  uint32_t ratio = 0;  // 0: there is none
  uint32_t width = 0;  // of a key
  // A key is also made of the tokens of the block before, by projections of its own.
  bool overlaps = false;

  uint32_t columns() const { return ratio == 0 ? 0 : overlaps ? 2 * width : width; }
  uint32_t rows() const { return overlaps ? 2 * ratio : ratio; }  // tokens of a key
  bool operator==(const CompressorShape&) const = default;
};

// Attention of DeepSeek-V4: one key head, whose keys are values, too; a window, and compressed keys
// beyond it in layers with LayerSpec::ratio; an output projection in `groups` parts of `rank` rows.
struct CompressedShape {
  uint32_t groups = 0;  // 0: the model has other attention
  uint32_t rank = 0;
  bool operator==(const CompressedShape&) const = default;
};

}  // namespace moepack
