// The activations of all neurons of a layer on a sample of tokens, in the memory of an executor
// with dense algebra (neuron_scores.h). There they are floats.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/refit/device_node.h"
#include "runtime-shim/refit/products.h"

namespace moepack::runtime {

// Neurons by their squares [2, n] on a device: |phi'r|^2, and |phi|^2.
Result<std::vector<NeuronSize>> ReadSizes(DenseAlgebra& algebra, const Doubles& squares);

class DeviceScores {
 public:
  // The inputs [t, H] of neurons; with form's weigh_inputs, each row times its gate.
  struct Sample {
    const ExpertForm& form;
    std::span<const float> inputs, gates;
  };
  // Runs the neurons of all experts, some of which may be null, on a sample. Null where the
  // executor has no algebra, or no room for their activations and `more` bytes. Borrows products.
  static Result<std::unique_ptr<DeviceScores>> Make(Products& products,
                                                    std::span<const MlpWeights* const> experts,
                                                    const Sample& sample, uint64_t more);

  // What an expert misses on some rows of the sample, [rows, width], and what multiplies the
  // activations there.
  struct Missing {
    std::vector<uint32_t> rows;
    std::span<const float> factors, values;
    size_t width = 0;
  };
  // |phi'r| and |phi| of the neurons of each expert.
  Result<std::vector<std::vector<NeuronSize>>> Measure(const Missing& missing);

 private:
  // The columns of an expert's neurons in activations_.
  struct Columns {
    uint32_t first = 0, count = 0;
  };

  explicit DeviceScores(Products& products) : products_(products) {}
  Status Run(std::span<const MlpWeights* const> experts, const ExpertForm& form, const Rows& in);
  Status MeasureColumns(const Columns& own, const Missing& missing, const Rows& values,
                        const Doubles& squares);
  Executor& executor() const { return products_.executor(); }

  Products& products_;
  std::vector<Columns> columns_;  // by id
  Rows activations_;              // [t, neurons]
  DeviceTable activations_table_, phi_, explained_, squares_, values_;
};

}  // namespace moepack::runtime
