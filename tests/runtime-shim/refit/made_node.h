// A layer of a node with random values, for tests of the steps of a refit, and the same sums as in
// a refit, computed with plain loops.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <vector>

#include "runtime-shim/devices/executors.h"
#include "runtime-shim/refit/node_layer.h"
#include "tests/runtime-shim/random_floats.h"

namespace moepack::runtime {

struct MadeShape {
  uint32_t whole = 6, hidden = 8, width = 5, top_k = 2;  // experts of the router before it was cut
  size_t tokens = 400;
  ExpertIds ids = {0, 2, 3, 5};
  bool without_gate = false;  // experts have only up and down
};

inline RefittedExperts RandomExperts(const MadeShape& shape, uint64_t seed) {
  RefittedExperts experts;
  experts.expert_ids = shape.ids;
  experts.hidden = experts.router_width = shape.hidden;
  experts.width = shape.width;
  const size_t matrix = shape.ids.size() * shape.hidden * shape.width;
  if (!shape.without_gate) experts.gate = RandomFloats(matrix, seed);
  experts.up = RandomFloats(matrix, seed + 1);
  experts.down = RandomFloats(matrix, seed + 2);
  experts.router = RandomFloats(shape.ids.size() * shape.hidden, seed + 3);
  return experts;
}

inline RowStore StoreOf(const std::vector<float>& values, uint32_t width) {
  RowRoom room;
  auto store = RowStore::Make(values.size() / width, width, room);
  EXPECT_TRUE(store) << store.error().message;
  EXPECT_TRUE(store->Write(0, values));
  return std::move(*store);
}

inline std::vector<float> ValuesOf(const RowStore& store) {
  std::vector<float> values(store.count() * store.width());
  EXPECT_TRUE(store.Read(0, values));
  return values;
}

// Random inputs and targets; every eighth token is held out.
class MadeNode {
 public:
  explicit MadeNode(const MadeShape& shape = {}, size_t jobs = 1, const char* kind = "cpu")
      : shape_(shape),
        inputs_(StoreOf(RandomFloats(shape.tokens * shape.hidden, 1), shape.hidden)),
        targets_(StoreOf(RandomFloats(shape.tokens * shape.hidden, 2), shape.hidden)),
        outputs_(StoreOf(std::vector<float>(shape.tokens * shape.hidden, 0), shape.hidden)) {
    ExecutorOptions options;
    options.threads = static_cast<uint32_t>(jobs);
    auto executor = OpenExecutor(kind, options);
    EXPECT_TRUE(executor) << executor.error().message;
    executor_ = std::move(*executor);
    products_ = std::make_unique<Products>(*executor_, jobs);
    node.routing.expert_count = shape.whole;
    node.routing.top_k = shape.top_k;
    node.experts = RandomExperts(shape, 10);
    if (shape.without_gate) node.form.activation = Activation::kSquaredRelu;
    node.fixed.assign(shape.ids.size(), false);
    node.inputs = node.router_inputs = &inputs_;
    node.targets = &targets_;
    node.outputs = &outputs_;
    for (size_t token = 0; token < shape.tokens; ++token) {
      const bool kept_back = token % 8 == 7;
      node.fit_weights.push_back(kept_back ? 0 : 1);
      node.fold_weights.push_back(kept_back ? 1 : 0);
    }
  }

  Products& products() { return *products_; }
  RowStore& targets() { return targets_; }
  const MadeShape& shape() const { return shape_; }
  void Run() {
    const Status routed = RouteNode(products(), node);
    ASSERT_TRUE(routed) << routed.error().message;
    const Status ran = RunNode(products(), node);
    ASSERT_TRUE(ran) << ran.error().message;
  }
  // Sets the targets to the outputs of other experts.
  void TargetOthers(const RefittedExperts& others) {
    const RefittedExperts own = node.experts;
    node.experts = others;
    Run();
    ASSERT_TRUE(targets_.Write(0, ValuesOf(outputs_)));
    node.experts = own;
  }
  double FitError() const {
    NodeLayer fit = node;
    fit.fold_weights = node.fit_weights;
    const auto error = FoldError(fit);
    EXPECT_TRUE(error);
    return *error;
  }

  NodeLayer node;

 private:
  MadeShape shape_;
  RowStore inputs_, targets_, outputs_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Products> products_;
};

// act(gate x) * (up x) of one expert, in doubles.
inline std::vector<double> PlainActivations(const RefittedExperts& experts, size_t place,
                                            const float* x) {
  std::vector<double> values;
  for (size_t neuron = 0; neuron < experts.width; ++neuron) {
    double gate = 0, up = 0;
    for (size_t i = 0; i < experts.hidden; ++i) {
      const size_t at = (place * experts.width + neuron) * experts.hidden + i;
      gate += double{experts.gate[at]} * x[i];
      up += double{experts.up[at]} * x[i];
    }
    values.push_back(gate / (1 + std::exp(-gate)) * up);
  }
  return values;
}

}  // namespace moepack::runtime
