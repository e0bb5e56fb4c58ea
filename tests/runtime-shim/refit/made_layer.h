// A layer of a whole model with random values, some of whose experts a node has.
#pragma once

#include <gtest/gtest.h>

#include <vector>

#include "runtime-shim/refit/refill.h"
#include "tests/runtime-shim/refit/made_node.h"

namespace moepack::runtime {

// A layer of six experts, four of which the node has.
class MadeLayer {
 public:
  explicit MadeLayer(size_t jobs = 1, const MadeShape& shape = {}, bool biases = false,
                     const char* kind = "cpu")
      : made(shape, jobs, kind) {
    MadeShape whole = shape;
    whole.ids = {0, 1, 2, 3, 4, 5};
    all = RandomExperts(whole, 20);
    if (biases) AddBiases();
    const size_t kept[] = {0, 2, 3, 5};
    made.node.experts = TakeExperts(all, kept);
    auto loaded = LoadMatrices(all, made.products().executor());
    EXPECT_TRUE(loaded);
    matrices_ = std::move(*loaded);
    for (const MlpWeights& expert : matrices_.experts) table_.push_back(&expert);
    weights_.path = "made";
    weights_.trunk.push_back(TensorOf("blk.0.ffn_gate_inp.weight", all.router, {6, shape.hidden}));
    ExpertSet& set = weights_.sets.emplace_back();
    set.experts_by_layer[0] = whole.ids;
    const auto add = [&](const char* name, const std::vector<float>& values,
                         std::vector<uint64_t> sizes) {
      if (!values.empty()) set.tensors.push_back(TensorOf(name, values, std::move(sizes)));
    };
    add("blk.0.ffn_gate_exps.weight", all.gate, {6, shape.width, shape.hidden});
    add("blk.0.ffn_up_exps.weight", all.up, {6, shape.width, shape.hidden});
    add("blk.0.ffn_down_exps.weight", all.down, {6, shape.hidden, shape.width});
    add("blk.0.ffn_gate_exps.bias", all.gate_bias, {6, shape.width});
    add("blk.0.ffn_up_exps.bias", all.up_bias, {6, shape.width});
  }

  NeuronSource source() const { return {table_, &weights_, weights_.sets}; }
  uint64_t Refill(const RefitOptions& options = {}) {
    made.Run();
    const auto moved = RefillExperts(made.products(), options, source(), made.node);
    EXPECT_TRUE(moved) << moved.error().message;
    return moved ? *moved : 0;
  }

  RefittedExperts all;
  MadeNode made;

 private:
  void AddBiases() {
    const size_t count = all.expert_ids.size();
    if (!all.gate.empty()) all.gate_bias = RandomFloats(count * all.width, 30);
    all.up_bias = RandomFloats(count * all.width, 31);
    all.down_bias = RandomFloats(count * all.hidden, 32);
    all.router_bias = RandomFloats(count, 33, 0.1);
    all.selection_bias = RandomFloats(count, 34, 0.1);
  }
  static HostTensor TensorOf(const char* name, const std::vector<float>& values,
                             std::vector<uint64_t> shape) {
    return {name, quant::FindFormat("f32"), std::move(shape), std::as_bytes(std::span(values))};
  }

  NodeMatrices matrices_;
  std::vector<const MlpWeights*> table_;
  Weights weights_;
};

}  // namespace moepack::runtime
