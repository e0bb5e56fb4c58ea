// The matrices of a layer's experts during a calibration: in full precision, and as encoded rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/refit/refit_store.h"
#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/refit/source_layers.h"

namespace moepack::runtime {

// One layer of a group's node.
struct NodeOfLayer {
  RefittedExperts experts;  // all that its router may pick, with their rows of the router
  ExpertIds refitted;       // of these, those that are encoded for the node
  uint32_t top_k = 0;       // 0: as in the model
  EncodedTensors whole;     // the layer as the whole model has it, for all other experts
};

// A tensor of the GGUF with experts of the layer.
struct ExpertTensor {
  const HostTensor* tensor = nullptr;
  const quant::Format* type = nullptr;  // to encode
  uint64_t rows = 0, columns = 0;       // of an expert
  bool down = false;
  std::vector<std::vector<float> RefittedExperts::*>
      arrays;  // whose rows it has, one after another
  uint64_t bytes() const { return rows * *type->BytesFor(columns); }  // of an expert, encoded
};

class ExpertMatrices {
 public:
  struct Input {
    const DeviceModel& model;
    const ProductWatch& watch;
    const TensorTypes& types;
    const SourceLayers& source;         // at the layer
    const NodeOfLayer* node = nullptr;  // null: all experts of the model run, and are encoded
    uint32_t layer = 0;
  };
  // Borrows everything. `encoded` gets room for the experts that are encoded, or has them if they
  // are `known`: kMismatch for other sizes.
  static Result<ExpertMatrices> Of(const Input& input, bool known, EncodedTensors& encoded);

  // The experts, ascending. A place is an index into them.
  const ExpertIds& ids() const { return ids_; }
  const std::vector<ExpertTensor>& tensors() const { return tensors_; }
  std::vector<const quant::Format*> TypesOf(bool down) const;
  // Whether the expert is encoded with this layer; others come from the whole model.
  bool IsEncodedHere(size_t place) const { return slots_[place].has_value(); }
  bool HasAnyToEncode() const { return slot_count_ > 0 && !tensors_.empty(); }

  // Of one expert alone.
  RefittedExperts InFull(size_t place) const;
  // The weights of the tensor's rows.
  static std::vector<float> RowsOf(const ExpertTensor& tensor, const RefittedExperts& expert);
  // Puts encoded values in the place of others.
  void PutEncoded(size_t place, bool down, RefittedExperts& expert) const;
  // The encoded rows. REQUIRES: IsEncodedHere(place).
  std::span<std::byte> Slab(const ExpertTensor& tensor, size_t place) const;

 private:
  ExpertMatrices(const Input& input, EncodedTensors& encoded) : input_(input), encoded_(&encoded) {}
  void FindExperts();
  Status FindTensors(bool known);
  std::span<const std::byte> Rows(const ExpertTensor& tensor, size_t place) const;
  std::vector<float> ValuesOf(const Matrix& matrix) const;

  Input input_;
  EncodedTensors* encoded_;
  ExpertIds ids_;
  std::vector<std::optional<size_t>> slots_;  // by place: the number of the expert's slabs
  size_t slot_count_ = 0;
  std::vector<ExpertTensor> tensors_;
};

}  // namespace moepack::runtime
