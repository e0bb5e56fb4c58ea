// The experts of a layer during a calibration: they are encoded one after another, each on the
// inputs of the tokens that the encoded model's router sends to it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/refit/row_store.h"
#include "runtime-shim/refit/source_layers.h"

namespace moepack::runtime {

// Row t is token t of the text.
struct ExpertRowsOfText {
  std::optional<RowStore> inputs;  // of the experts in the encoded model
  std::optional<RowStore> full;    // of the experts in the model itself
  std::optional<RowStore> router;  // of the encoded model's router, if they are others
  std::optional<RowStore> sums;    // what the encoded experts produce together
};

// Borrows everything.
struct ExpertLayer {
  const DeviceModel& model;
  ProductWatch& watch;
  const TensorTypes& types;
  const CalibrateOptions& options;
  const SourceLayers& source;  // at the layer
  ExpertRowsOfText& rows;
  const std::vector<bool>& held_out;  // by token
  uint32_t layer = 0;
};

using EncodedTensors = std::map<std::string, std::vector<std::byte>, std::less<>>;

// Encodes the experts into `tensors`, or takes them from there if they are `known`, and sets the
// sums.
Status EncodeExperts(const ExpertLayer& layer, bool known, CalibratedLayer& outcome,
                     EncodedTensors& tensors);

}  // namespace moepack::runtime
