// The steps of a refit in the memory of the emulated device, beside the same steps of the host.
#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <set>
#include <utility>

#include "runtime-shim/refit/device_node.h"
#include "runtime-shim/refit/device_refill.h"
#include "runtime-shim/refit/device_ridge.h"
#include "runtime-shim/refit/ridge.h"
#include "runtime-shim/refit/tune.h"
#include "runtime-shim/refit/tuned_node.h"
#include "tests/runtime-shim/refit/made_layer.h"

namespace moepack::runtime {
namespace {

const MadeShape kMade = {.tokens = 80};

// Which parts a layer has beside gates, projections and weights of one.
struct Kind {
  const char* name;
  bool biases = false, weigh_inputs = false, without_gate = false;
  bool router_apart = false;  // the router has inputs of its own
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class CudaRefitEmulated : public ::testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { emulation::TheMachine() = {}; }
  void TearDown() override { emulation::TheMachine() = {}; }

  // The same node on an executor, routed and run.
  std::unique_ptr<MadeNode> NodeOn(const char* executor, const Kind& kind = {}) {
    auto made = std::make_unique<MadeNode>(kMade, 1, executor);
    NodeLayer& node = made->node;
    const size_t count = node.experts.expert_ids.size();
    if (kind.biases) {
      node.experts.gate_bias = RandomFloats(count * kMade.width, 30);
      node.experts.up_bias = RandomFloats(count * kMade.width, 31);
      node.experts.down_bias = RandomFloats(count * kMade.hidden, 32);
    }
    if (kind.without_gate) {
      node.experts.gate.clear();
      node.experts.gate_bias.clear();
      node.form.activation = Activation::kSquaredRelu;
    }
    node.form.weigh_inputs = kind.weigh_inputs;
    if (kind.router_apart) {
      stores_.push_back(std::make_unique<RowStore>(
          StoreOf(RandomFloats(kMade.tokens * kMade.hidden, 40), kMade.hidden)));
      node.router_inputs = stores_.back().get();
    }
    node.fixed[1] = true;
    for (size_t token = 0; token < node.tokens(); token += 3) node.fit_weights[token] *= 0.25f;
    made->Run();
    return made;
  }

  static void ExpectNear(const std::vector<float>& found, const std::vector<float>& expected,
                         double tolerance) {
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i)
      ASSERT_NEAR(found[i], expected[i], tolerance * (1 + std::abs(expected[i]))) << i;
  }
  static void ExpectSameExperts(MadeNode& found, MadeNode& expected, double tolerance) {
    for (const RefittedArray& array : RefittedArrays()) {
      SCOPED_TRACE(array.name);
      ExpectNear(found.node.experts.*array.values, expected.node.experts.*array.values, tolerance);
    }
  }
  // Whether a step that takes so many bytes beside the node works on the device.
  static bool FitsOnDevice(MadeNode& made, uint64_t more = 0) {
    const auto device = DeviceNode::Make(made.products(), made.node, more);
    EXPECT_TRUE(device) << device.error().message;
    return *device != nullptr;
  }
  // Leaves so many bytes to a step.
  static void LeaveRoom(MadeNode& made, uint64_t bytes) {
    EXPECT_TRUE(made.products().HasRoomFor(0));
    emulation::TheMachine().memory = emulation::BytesInUse() + bytes;
  }
  static void Ridge(MadeNode& made, uint64_t memory) {
    RefitOptions options;
    options.memory = memory;
    const Status done = RidgeDown(made.products(), options, made.node);
    ASSERT_TRUE(done) << done.error().message;
  }
  static TuneLoss Tune(MadeNode& made) {
    TuneOptions options;
    options.updates = 3;
    options.interval = 2;
    options.share = 0.5;
    const auto loss = TuneExperts(made.products(), options, made.node);
    EXPECT_TRUE(loss) << loss.error().message;
    return loss ? *loss : TuneLoss();
  }

  std::vector<std::unique_ptr<RowStore>> stores_;
};

TEST_P(CudaRefitEmulated, RidgeOfAllExpertsTogetherIsThatOfTheHost) {
  const auto own = NodeOn("cuda", GetParam()), host = NodeOn("cpu", GetParam());
  ASSERT_TRUE(FitsOnDevice(*own));
  Ridge(*own, UINT64_MAX);
  Ridge(*host, UINT64_MAX);
  ExpectSameExperts(*own, *host, 1e-4);
}

TEST_P(CudaRefitEmulated, RidgeInTurnsIsThatOfTheHost) {
  const auto own = NodeOn("cuda", GetParam()), host = NodeOn("cpu", GetParam());
  ASSERT_TRUE(FitsOnDevice(*own));
  Ridge(*own, 0);
  Ridge(*host, 0);
  ExpectSameExperts(*own, *host, 1e-4);
  ExpectNear(ValuesOf(*own->node.outputs), ValuesOf(*host->node.outputs), 1e-4);
}

TEST_P(CudaRefitEmulated, TuneIsThatOfTheHost) {
  const auto own = NodeOn("cuda", GetParam()), host = NodeOn("cpu", GetParam());
  ASSERT_TRUE(FitsOnDevice(*own));
  const std::vector<float> before = own->node.experts.down;
  const TuneLoss found = Tune(*own), expected = Tune(*host);
  EXPECT_EQ(found.updates, 3u);
  EXPECT_NEAR(found.first, expected.first, 1e-5 * expected.first);
  EXPECT_NEAR(found.last, expected.last, 1e-3 * expected.last);
  EXPECT_NE(own->node.experts.down, before);
  ExpectSameExperts(*own, *host, 1e-3);
}

// With a fixed expert, one with too few tokens, and tokens that count for a quarter.
TEST_F(CudaRefitEmulated, RefillIsThatOfTheHost) {
  for (const Kind& kind : {Kind{"plain"}, Kind{"biases", true}, Kind{"inputs", false, true},
                           Kind{"without_gate", true, false, true}}) {
    SCOPED_TRACE(kind.name);
    MadeShape shape = kMade;
    shape.without_gate = kind.without_gate;
    MadeLayer own(1, shape, kind.biases, "cuda"), host(1, shape, kind.biases);
    for (MadeLayer* layer : {&own, &host}) {
      NodeLayer& node = layer->made.node;
      node.form.weigh_inputs = kind.weigh_inputs;
      node.fixed[1] = true;
      for (size_t token = 0; token < node.tokens(); token += 3) node.fit_weights[token] *= 0.25f;
      layer->made.Run();
      node.least_tokens = SIZE_MAX;
      const std::vector<ExpertTokens> tokens = TokensOfExperts(node, true);
      for (const ExpertTokens& expert : tokens)
        node.least_tokens = std::min<uint64_t>(node.least_tokens, expert.tokens.size() + 1);
      const size_t changing = ChangingExperts(node, tokens).size();
      ASSERT_GE(changing, 1u);
      ASSERT_LT(changing, tokens.size() - 1);
    }
    ASSERT_TRUE(FitsOnDevice(own.made));
    const std::vector<float> before = own.made.node.experts.up;
    const uint64_t moved = own.Refill();
    EXPECT_GT(moved, 0u);
    EXPECT_EQ(moved, host.Refill());
    EXPECT_FALSE(own.made.products().TakeRefusal());
    EXPECT_NE(own.made.node.experts.up, before);
    ExpectSameExperts(own.made, host.made, 1e-3);
    ExpectNear(ValuesOf(*own.made.node.outputs), ValuesOf(*host.made.node.outputs), 1e-3);
  }
}

INSTANTIATE_TEST_SUITE_P(, CudaRefitEmulated,
                         testing::Values(Kind{"plain"}, Kind{"biases", true},
                                         Kind{"weighed_inputs", false, true},
                                         Kind{"router_apart", true, false, false, true},
                                         Kind{"without_gate", true, false, true}),
                         [](const auto& kind) { return std::string(kind.param.name); });

// Single products of rows in host memory, more than run or are added up at a time.
TEST_F(CudaRefitEmulated, ProductsAreThoseOfTheHost) {
  constexpr size_t kA = 3, kB = 5;
  const auto own = NodeOn("cuda"), host = NodeOn("cpu");
  for (const size_t rows : {size_t{0}, size_t{1}, kTokensOfSum + 1, size_t{4099}}) {
    SCOPED_TRACE(rows);
    const std::vector<float> a = RandomFloats(rows * kA, 1), b = RandomFloats(rows * kB, 2);
    const std::vector<float> weights = RandomFloats(kA * kB, 3);
    std::vector<std::vector<float>> found;
    for (MadeNode* made : {own.get(), host.get()}) {
      Products& products = made->products();
      std::vector<double> sums(kA * kB, 3), squares(kA * kA, 1);
      std::vector<float> product(kA * kB), rows_of_b(rows * kB);
      ASSERT_TRUE(products.AddProduct({a, kA}, {b, kB}, {sums.data(), kB}));
      ASSERT_TRUE(products.AddSquare({a, kA}, {squares.data(), kA}));
      ASSERT_TRUE(products.Product({a, kA}, {b, kB}, product));
      ASSERT_TRUE(products.MultiplyBy({weights, kB}, a, rows_of_b));
      std::vector<float> all(sums.begin(), sums.end());
      for (size_t i = 0; i < kA; ++i) {
        for (size_t j = i; j < kA; ++j) all.push_back(static_cast<float>(squares[i * kA + j]));
      }
      all.insert(all.end(), product.begin(), product.end());
      all.insert(all.end(), rows_of_b.begin(), rows_of_b.end());
      found.push_back(std::move(all));
    }
    ExpectNear(found[0], found[1], 1e-4);
  }
}

// As on a device that has no algebra at all.
TEST_F(CudaRefitEmulated, WithoutLibrariesTheDeviceIsAskedForSingleProducts) {
  using emulation::Libraries;
  for (const Libraries libraries :
       {Libraries::kMissing, Libraries::kWithoutBlas, Libraries::kWithoutSolver}) {
    SCOPED_TRACE(static_cast<int>(libraries));
    emulation::TheMachine().libraries = libraries;
    MadeLayer own(1, kMade, true, "cuda"), host(1, kMade, true);
    EXPECT_EQ(own.made.products().algebra(), nullptr);
    EXPECT_EQ(own.Refill(), host.Refill());
    for (MadeLayer* layer : {&own, &host}) {
      Ridge(layer->made, 0);
      Tune(layer->made);
    }
    EXPECT_FALSE(own.made.products().TakeRefusal());
    ExpectSameExperts(own.made, host.made, 1e-3);
  }
}

// A device with room for what the host's steps write there, but not for a node.
TEST_F(CudaRefitEmulated, WithoutRoomForTheNodeTheHostDoesTheWork) {
  const auto own = NodeOn("cuda"), host = NodeOn("cpu");
  LeaveRoom(*own, 28'000);
  EXPECT_FALSE(FitsOnDevice(*own, 14'000));  // less than either step asks for
  EXPECT_TRUE(own->products().TakeRefusal());
  Ridge(*own, 0);
  EXPECT_TRUE(own->products().TakeRefusal());
  EXPECT_FALSE(own->products().TakeRefusal());
  Ridge(*host, 0);
  ExpectSameExperts(*own, *host, 1e-4);
  Tune(*own);
  EXPECT_TRUE(own->products().TakeRefusal());
  Tune(*host);
  ExpectSameExperts(*own, *host, 1e-3);
}

// What earlier products left on the device does not decide where a step runs.
TEST_F(CudaRefitEmulated, RoomIsWhatAStepFindsWithoutWhatOthersLeft) {
  const auto own = NodeOn("cuda");
  Products& products = own->products();
  EXPECT_TRUE(products.HasRoomFor(0));
  const size_t before = emulation::BytesInUse();
  const std::vector<float> rows = RandomFloats(4096, 1);
  std::vector<double> sums(64 * 64);
  ASSERT_TRUE(products.AddSquare({rows, 64}, {sums.data(), 64}));
  EXPECT_GT(emulation::BytesInUse(), before);
  const uint64_t free = emulation::TheMachine().memory - before;
  EXPECT_TRUE(products.HasRoomFor(free / 5 * 4));
  EXPECT_EQ(emulation::BytesInUse(), before);
  EXPECT_FALSE(products.TakeRefusal());
  EXPECT_FALSE(products.HasRoomFor(free / 5 * 4 + 16));
  EXPECT_TRUE(products.TakeRefusal());
}

// Runs a step on the device; false if it does not begin, because it asks for more than there is.
using DeviceStep = std::function<Result<bool>(MadeLayer&)>;

Result<bool> RefillOne(MadeLayer& own) {
  SHARD_TRY(const auto device, DeviceRefill::Make(own.made.products(), own.source(),
                                                  own.made.shape().width, own.made.node));
  if (device == nullptr) return false;
  const Neuron others[] = {{1, 0}, {1, 3}, {4, 2}};
  SHARD_CHECK(device->Run(0, others, 0.01));
  return true;
}

Result<bool> TuneOnce(MadeLayer& own) {
  NodeLayer& node = own.made.node;
  TuneOptions options;
  options.updates = 1;
  options.share = 1;
  const size_t places[] = {0, 1, 2, 3};
  SHARD_TRY(auto tuned, TuneOnDevice(own.made.products(), node, places, options.expert_tokens));
  if (tuned == nullptr) return false;
  tuned.reset();
  SHARD_CHECK(TuneExperts(own.made.products(), options, node));
  return true;
}

// Where every expert has all tokens. A step that began and then ran out of memory would end a refit
// of hours.
TEST_F(CudaRefitEmulated, NoStepTakesMoreMemoryThanItAsksFor) {
  MadeShape shape = kMade;
  shape.hidden = 40;
  shape.width = 24;
  shape.top_k = 4;
  shape.tokens = 160;
  MadeLayer own(1, shape, false, "cuda");
  own.made.Run();
  Products& products = own.made.products();
  const std::vector<float> before = own.made.node.experts.down;
  const std::pair<const char*, DeviceStep> steps[] = {
      {"ridge of all together",
       [&](MadeLayer& layer) {
         return RidgeJointlyOnDevice(products, 0.01, before, layer.made.node);
       }},
      {"ridge in turns",
       [&](MadeLayer& layer) {
         return RidgeInTurnsOnDevice(products, 0.01, before, 1, layer.made.node);
       }},
      {"refill", RefillOne},
      {"tune", TuneOnce},
  };
  for (const auto& [name, step] : steps) {
    SCOPED_TRACE(name);
    // A step begins where there is a quarter more than what it asks for.
    uint64_t refused = 0, accepted = 1 << 21;
    size_t taken = 0;
    while (accepted - refused > 2048) {
      const uint64_t room = refused + (accepted - refused) / 2;
      LeaveRoom(own.made, room);
      const size_t others = emulation::MostBytesInUse() = emulation::BytesInUse();
      const Result<bool> done = step(own);
      ASSERT_TRUE(done) << done.error().message;
      (*done ? accepted : refused) = room;
      if (*done) taken = emulation::MostBytesInUse() - others;
    }
    const uint64_t asked = accepted / 5 * 4;
    EXPECT_LT(taken, asked + asked / 20);
    EXPECT_GT(taken, asked / 3);
  }
}

TEST_F(CudaRefitEmulated, SystemsWithMoreValuesThanAnIntCountsAreLeftToTheHost) {
  MadeLayer own(1, kMade, false, "cuda");
  own.made.Run();
  emulation::TheMachine().memory = SIZE_MAX;
  const uint64_t most = DenseAlgebra::kMostEquations - kMade.width;
  EXPECT_LT((most + kMade.width) * (most + kMade.width), uint64_t{1} << 31);
  for (const uint64_t pool : {most, most + 1}) {
    const auto device = DeviceRefill::Make(own.made.products(), own.source(), pool, own.made.node);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_EQ(*device != nullptr, pool == most);
  }
}

TEST_F(CudaRefitEmulated, WithoutRoomForTheNodeARefillIsThatOfTheHostToo) {
  MadeLayer own(1, kMade, true, "cuda"), host(1, kMade, true);
  own.made.Run();
  LeaveRoom(own.made, 28'000);
  EXPECT_FALSE(FitsOnDevice(own.made, 14'000));
  const auto moved = RefillExperts(own.made.products(), {}, own.source(), own.made.node);
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_EQ(*moved, host.Refill());
  ExpectSameExperts(own.made, host.made, 1e-3);
}

// The sample leaves room for the matrices of the refill, which gain more from the device.
TEST_F(CudaRefitEmulated, WithRoomForARefillAloneTheHostKeepsItsSample) {
  MadeLayer own(1, kMade, true, "cuda"), host(1, kMade, true);
  own.made.Run();
  Products& products = own.made.products();
  const uint64_t bytes = DeviceRefill::BytesOf(own.made.node, kMade.width);
  LeaveRoom(own.made, bytes + bytes / 4 + 100);
  {
    const auto device = DeviceRefill::Make(products, own.source(), kMade.width, own.made.node);
    ASSERT_TRUE(device) << device.error().message;
    EXPECT_NE(*device, nullptr);
  }
  EXPECT_FALSE(products.TakeRefusal());
  const auto moved = RefillExperts(products, {}, own.source(), own.made.node);
  ASSERT_TRUE(moved) << moved.error().message;
  EXPECT_TRUE(products.TakeRefusal());
  EXPECT_EQ(*moved, host.Refill());
  ExpectSameExperts(own.made, host.made, 1e-3);
}

// The host keeps activations in half precision, so that the last places may differ. A wide layer is
// projected to random directions first.
TEST_F(CudaRefitEmulated, ScoresFindTheNeuronsThatTheHostFinds) {
  for (const uint32_t hidden : {8u, 160u}) {
    SCOPED_TRACE(hidden);
    MadeShape shape = kMade;
    shape.hidden = hidden;
    MadeLayer own(1, shape, false, "cuda"), host(1, shape);
    const auto best = [](MadeLayer& layer, uint64_t memory) {
      layer.made.Run();
      NeuronScores scores(layer.made.products(), layer.source(), layer.made.node);
      const Status ran = scores.Run(memory);
      EXPECT_TRUE(ran) << ran.error().message;
      const auto found = scores.Best(1, 6);
      EXPECT_TRUE(found) << found.error().message;
      std::set<std::pair<uint32_t, uint32_t>> neurons;
      for (const Neuron& neuron : *found) neurons.insert({neuron.expert, neuron.index});
      return neurons;
    };
    const auto found = best(own, UINT64_MAX), expected = best(host, UINT64_MAX);
    size_t same = 0;
    for (const auto& neuron : found) same += expected.count(neuron);
    EXPECT_EQ(found.size(), 6u);
    EXPECT_GE(same, 5u);
  }
}

TEST_F(CudaRefitEmulated, ASingularMatrixIsAnErrorOnTheDeviceToo) {
  for (const uint64_t memory : {uint64_t{0}, UINT64_MAX}) {
    const auto own = NodeOn("cuda");
    std::fill(own->node.experts.gate.begin(), own->node.experts.gate.end(), 0.0f);
    own->node.experts.gate[0] = 1;  // one neuron of one expert
    RefitOptions options;
    options.memory = memory;
    options.lambda = 0;
    const Status done = RidgeDown(own->products(), options, own->node);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, Code::kInvalidArgument);
    EXPECT_NE(done.error().message.find("expected a positive definite one"), std::string::npos)
        << done.error().message;
  }
}

TEST_F(CudaRefitEmulated, ALostDeviceEndsTheStep) {
  const auto own = NodeOn("cuda");
  emulation::TheMachine().lost = true;
  RefitOptions options;
  const Status done = RidgeDown(own->products(), options, own->node);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace moepack::runtime
