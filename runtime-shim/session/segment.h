// A session's part in a pass.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/session/device_model.h"
#include "runtime-shim/session/scratch.h"

namespace moepack::runtime {

// The factors of rotary angles (PairTurns), and those of layers with rope.local_rope.
struct Turns {
  std::vector<double> pairs, local;
};

// A session's tokens in a pass. The first is at position `past`. Borrows everything; `observer` may
// be null.
struct Segment {
  std::span<const uint32_t> tokens;
  uint32_t past = 0;
  LayerCaches* caches = nullptr;
  const EligibleTables* eligible = nullptr;
  RoutingObserver* observer = nullptr;
  const Turns* turns = nullptr;
  // The tokens at the positions before `past`: if a recurrent layer's state is for different
  // tokens, it is recomputed from these.
  std::span<const uint32_t> before = {};
  uint32_t first_row = 0;  // among the rows of the pass; set by Forward::Run
  uint32_t count() const { return static_cast<uint32_t>(tokens.size()); }
};

}  // namespace moepack::runtime
