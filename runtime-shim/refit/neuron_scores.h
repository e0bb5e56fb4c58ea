// How well the neurons of a layer explain what a node's experts miss, on one sample of tokens for
// all experts: every neuron runs once on the sample, and its activations are kept, on the host in
// half precision.
//
// For the tokens of an expert with gates g and what is missing there, r, a neuron with activations
// a is scored with phi = g a by |phi'r|^2 / (phi'phi + 0.001 * mean of phi'phi), which is what its
// best multiple takes from |r|^2 (matching pursuit, Mallat and Zhang 1993). In a wide layer r is
// first projected to kDirections random directions, which keeps |phi'r| within a tenth. So the
// scores find the best thousands, and RefillExperts scores these exactly.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/refit/device_scores.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/refit_options.h"

namespace moepack::runtime {

struct Neuron {
  uint32_t expert = 0, index = 0;
};

// Every expert of the layer in the whole model, by id.
struct NeuronSource {
  std::span<const MlpWeights* const> experts;  // on the executor
  // Gate and up of one of them as floats.
  const Weights* weights = nullptr;
  std::span<const ExpertSet> sets;
};

// About this many tokens of each expert are in the sample, if they are chosen equally often and the
// memory allows it.
inline constexpr uint64_t kSampledTokens = 4096;
inline constexpr size_t kDirections = 128;

// The rows of the sample of a layer with as many `neurons` and `tokens` that count.
uint64_t ScoredRows(uint64_t experts, uint64_t top_k, uint64_t neurons, uint64_t tokens,
                    uint64_t memory);
// What the activations of neurons on the sample take on the host; on a device twice as much.
inline uint64_t ScoredBytes(uint64_t rows, uint64_t neurons) {
  return rows * neurons * sizeof(uint16_t);
}

// Scores of neurons, from their |phi'r| and |phi|; 0 for one that never fires.
std::vector<double> ScoresOf(std::span<const NeuronSize> neurons);
// The places of the `count` largest scores, largest first; of equal ones the first wins.
std::vector<size_t> LargestScores(std::span<const double> scores, size_t count);

class NeuronScores {
 public:
  // Borrows products, node and what the source points to. REQUIRES: routes match the experts.
  NeuronScores(Products& products, NeuronSource source, const NodeLayer& node)
      : products_(products), source_(source), node_(node) {}

  // Draws the sample and runs all neurons on it. `memory`: bytes for their activations on the host,
  // which decide how large the sample is. `device_memory`: bytes to leave free on a device.
  Status Run(uint64_t memory, uint64_t device_memory = 0);
  // The best neurons of all other experts for the one at this place, best first.
  Result<std::vector<Neuron>> Best(size_t place, size_t count);

 private:
  // A token of the sample that chose an expert.
  struct Choice {
    uint32_t row = 0, token = 0;
    float gate = 0;
  };

  void DrawRows(uint64_t memory);
  Status RunExpert(uint32_t id, std::span<const float> inputs, std::span<const float> gates);
  // Sets what the expert misses, in the directions, and the factors of activations.
  Status TakeMissing(std::span<const Choice> choices);
  // |phi'r| and |phi| of all neurons, by id; on the host those of `self` are left out.
  Result<std::vector<std::vector<NeuronSize>>> MeasureAll(uint32_t self,
                                                          std::span<const Choice> choices);
  void Measure(uint32_t id, std::span<const Choice> choices, std::vector<NeuronSize>& sizes) const;

  Products& products_;
  const NeuronSource source_;
  const NodeLayer& node_;
  std::vector<uint32_t> tokens_;              // of the rows
  std::vector<float> gates_;                  // of the rows, where they weigh inputs
  std::vector<std::vector<Choice>> choices_;  // by place
  std::vector<float> directions_;             // [H, kDirections], or empty
  // Upper halves of floats, by id: for each panel of neurons [rows, kPanelColumns].
  std::vector<std::vector<uint16_t>> activations_;
  std::unique_ptr<DeviceScores> device_;  // has them where the executor has dense algebra
  // Of the expert whose turn it is: [choices, directions], the same turned and times the factors,
  // and the factors of activations.
  std::vector<float> missed_, missing_, factors_;
  size_t width_ = 0;  // of missing_: the directions
};

}  // namespace moepack::runtime
