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
  uint64_t row_bytes = 0;      // streams and activations of all tokens
  uint64_t matrix_bytes = 0;   // the largest moments and factors
  uint64_t tokens_needed = 0;  // TokensForCalibration
  // On an idle machine: alone, and as the one with the largest share of the experts. Equal if there
  // is only one.
  double seconds = 0, seconds_of_one = 0;
};

// What a calibration has.
struct CalibrateShape {
  uint64_t tokens = 0;                        // of text
  size_t jobs = 0;                            // threads of a machine; 0: one per core
  uint32_t machines = 1;                      // that share the experts, and then the groups
  std::span<const GroupExperts> groups = {};  // that are calibrated for their own nodes
};

// Tries the model's executor, and the kernels on some rows of each type and length, which takes a
// second at most for each. Errors are those of a device.
Result<CalibrateEstimate> EstimateCalibration(const Model& model, const TensorTypes& types,
                                              const CalibrateShape& shape);

// Tokens for each input of a matrix that are enough: more of them lowered the divergence of
// fixtures/tiny-moe by little (docs/calibration.md, "How much closer").
inline constexpr uint64_t kTokensPerInput = 3;
// Tokens of text that give each matrix so many, if all experts of a layer are chosen equally often.
uint64_t TokensForCalibration(const Model& model, const TensorTypes& types);

}  // namespace moepack::runtime
