// The rows that a forward pass works in. They are allocated once, for the largest batch.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {

// The rows that a layer keeps for later tokens. Row p is position p.
struct LayerCache {
  Rows keys, values;  // values may be columns of keys
  DeltaState delta;   // of a recurrent layer, which has no rows
};

// All have `batch` rows. The comments give widths in values.
struct Scratch {
  Rows hidden, normed, branch;  // width
  Rows queries, attended;       // heads * key width, heads * value width
  // Latent attention: down-projected, before the heads' keys. query_wide also where queries have
  // gates: heads * 2 * key width.
  Rows query_low, query_wide;
  Rows gates;                      // of gated queries: heads * key width
  Rows head_gates;                 // heads
  Rows delta_mixed, delta_values;  // a delta net's channels and values
  Rows latent_out;                 // latent attention: heads * rank
  Rows gate, up;                   // the width of the widest MLP
  Rows expert_in, expert_out;      // width
  Rows zeros;                      // width, always zero
  Rows router;                     // the largest number of experts of a layer
  Rows shared_gate;                // 1
  Rows turns, local_turns;         // rope dims
  Rows logits;                     // vocabulary
  std::vector<LayerCache> caches;  // `context` rows each
  std::vector<BufferPtr> buffers;
};

// Allocates all rows. kUnavailable, with the bytes, when they do not fit.
Result<Scratch> AllocateScratch(const DeviceModel& model, uint32_t batch, uint32_t context);

}  // namespace moepack::runtime
