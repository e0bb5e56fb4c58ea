// Estimates what a calibration will need, before it runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>

#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

// The experts of a group's node by layer: how many it has, and how many of them are refitted and
// encoded for it.
struct GroupLayer {
  uint64_t held = 0, refitted = 0;
};
using GroupExperts = std::map<uint32_t, GroupLayer>;

struct CalibrateEstimate {
  // The trunk, and the experts of the largest layer as they are and as they are encoded; of groups
  // also the largest layer of a node in F32.
  uint64_t weight_bytes = 0;
  uint64_t row_bytes = 0;     // streams and activations of all tokens
  uint64_t matrix_bytes = 0;  // the largest moments and factors
  double seconds = 0;         // on an idle machine
};

// Of the model and then of groups, for this many tokens of text and this many threads, 0 for one
// per core. Tries the kernels on some rows of each type and length, which takes a second at most
// for each.
CalibrateEstimate EstimateCalibration(const Model& model, const TensorTypes& types,
                                      std::span<const GroupExperts> groups, uint64_t tokens,
                                      size_t jobs);

}  // namespace moepack::runtime
