// The experts of a layer during a calibration: they are encoded one after another, each on the
// inputs of the tokens that the encoded model's router sends to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/expert_matrices.h"
#include "runtime-shim/refit/row_store.h"
#include "runtime-shim/refit/source_layers.h"

namespace moepack::runtime {

// What a stream brings to the experts, and what they add to it. Row t is token t of the text.
struct ExpertStream {
  std::optional<RowStore> inputs;  // of the experts
  std::optional<RowStore> router;  // inputs of the router, if they are others; otherwise no rows
  std::optional<RowStore> sums;    // what the experts produce together
};

// Borrows everything.
struct ExpertLayer {
  const DeviceModel& model;
  ProductWatch& watch;
  const TensorTypes& types;
  const CalibrateOptions& options;
  const SourceLayers& source;         // at the layer
  ExpertStream& own;                  // of the encoded model
  ExpertStream& full;                 // of the model itself
  const std::vector<bool>& held_out;  // by token
  uint32_t layer = 0;
  ExpertExchange* exchange = nullptr;  // null: all experts are encoded here
  const NodeOfLayer* node = nullptr;   // null: all experts of the model run
};

// Encodes the experts into `tensors`, or takes them from there if they are `known`, and sets the
// sums of both streams. Of a node, the outcome has each expert that was encoded.
Status EncodeExperts(const ExpertLayer& layer, bool known, CalibratedOutcome& outcome,
                     EncodedTensors& tensors);

}  // namespace moepack::runtime
