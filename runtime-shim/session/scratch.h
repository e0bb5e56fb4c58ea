// The rows that a forward pass works in. They are allocated once, for the largest batch.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {

// The rows that a layer keeps for later tokens. Row p is position p.
struct LayerCache {
  Rows keys, values;  // values may be columns of keys
};

// All have `batch` rows. The comments give widths in values.
struct Scratch {
  Rows hidden, normed, branch;     // width
  Rows queries, attended;          // heads * key width, heads * value width
  Rows query_low, query_wide;      // latent attention: down-projected, before the heads' keys
  Rows latent_out;                 // latent attention: heads * rank
  Rows gate, up;                   // the width of the widest MLP
  Rows expert_in, expert_out;      // width
  Rows zeros;                      // width, always zero
  Rows router;                     // the largest number of experts of a layer
  Rows shared_gate;                // 1
  Rows turns;                      // rope dims
  Rows logits;                     // vocabulary
  std::vector<LayerCache> caches;  // `context` rows each
  std::vector<BufferPtr> buffers;
};

// Allocates all rows. kUnavailable, with the bytes, when they do not fit.
Result<Scratch> AllocateScratch(const DeviceModel& model, uint32_t batch, uint32_t context);

}  // namespace moepack::runtime
