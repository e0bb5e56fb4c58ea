// Attention and rotation, on every executor, against the reference.
#include <limits>

#include "tests/runtime-shim/executor/conformance.h"

namespace moepack::runtime {
namespace {

class ExecutorAttention : public EachExecutor {};

struct AttentionCase {
  const char* name;
  AttentionShape shape;
  uint32_t tokens;
  bool sinks = false;
  bool values_in_keys = false;  // the first columns of each key row
};

// heads, key heads, key width, value width, past, window, chunk, scale
constexpr AttentionCase kCases[] = {
    {"one token alone", {1, 1, 8, 8, 0, 0, 0, 1}, 1},
    {"a few tokens", {4, 4, 16, 16, 0, 0, 0, 0.25f}, 5},
    {"odd widths", {3, 3, 7, 5, 0, 0, 0, 0.4f}, 6},
    {"grouped queries after others", {8, 2, 64, 64, 3, 0, 0, 0.125f}, 7},
    {"values wider than keys", {6, 3, 24, 40, 0, 0, 0, 0.2f}, 9},
    {"one token after many", {8, 1, 128, 128, 41, 0, 0, 0.088f}, 1},
    {"a window", {4, 2, 16, 16, 0, 3, 0, 0.25f}, 9},
    {"a window in the past", {4, 2, 16, 16, 6, 4, 0, 0.25f}, 5},
    {"a window of one", {2, 2, 8, 8, 5, 1, 0, 1}, 4},
    {"chunks", {4, 2, 16, 16, 2, 0, 4, 0.25f}, 9},
    {"a window and chunks", {4, 2, 16, 16, 3, 3, 4, 0.25f}, 11},
    {"sinks", {8, 2, 16, 16, 0, 0, 0, 0.25f}, 6, true},
    {"sinks and a window", {8, 2, 64, 64, 5, 4, 0, 0.125f}, 6, true},
    {"latent attention", {4, 1, 72, 64, 5, 0, 0, 0.117f}, 4, false, true},
    {"latent attention of DeepSeek's size", {4, 1, 576, 512, 9, 0, 0, 0.0417f}, 2, false, true},
    {"many positions", {2, 1, 32, 32, 700, 0, 0, 0.177f}, 3},
    {"a window of many positions", {2, 1, 32, 32, 1200, 300, 0, 0.177f}, 3, true},
    {"many tokens", {2, 2, 8, 8, 0, 0, 0, 0.35f}, 130},
};

struct AttentionRows {
  Executor::AttentionInputs inputs;
  Rows out;
};

// The cache has three more rows than are in use; they hold NaN, which must not be read.
AttentionRows Prepare(Desk& desk, const AttentionCase& attention) {
  const AttentionShape& shape = attention.shape;
  const uint32_t positions = shape.past + attention.tokens;
  const auto cache = [&](uint32_t width) {
    const Rows rows = desk.Random({positions + 3, shape.key_heads * width, 4, 8});
    const std::vector<float> unused(rows.width * size_t{3},
                                    std::numeric_limits<float>::quiet_NaN());
    desk.executor().Write(unused, rows.Slice(positions, 3));
    return rows;
  };
  AttentionRows rows;
  rows.inputs.queries = desk.Random({attention.tokens, shape.heads * shape.key_width, 3, 1});
  rows.inputs.keys = cache(shape.key_width);
  rows.inputs.values = attention.values_in_keys ? rows.inputs.keys.Columns(0, shape.value_width)
                                                : cache(shape.value_width);
  if (attention.sinks) rows.inputs.sinks = desk.Vector(shape.heads);
  rows.out = desk.Random({attention.tokens, shape.heads * shape.value_width, 2, 3});
  return rows;
}

TEST_P(ExecutorAttention, MatchesTheReferenceForEveryShape) {
  for (const AttentionCase& attention : kCases) {
    SCOPED_TRACE(attention.name);
    Check(kAttention, [&](Desk& desk) {
      const AttentionRows rows = Prepare(desk, attention);
      desk.executor().Attention(attention.shape, rows.inputs, rows.out);
      return rows.out;
    });
  }
}

// exp of such products overflows unless the largest one is subtracted first.
TEST_P(ExecutorAttention, MatchesTheReferenceForLargeProducts) {
  const AttentionCase attention = {"", {2, 2, 16, 16, 4, 0, 0, 90}, 5, true};
  Check(1e-3, [&](Desk& desk) {  // errors of a product of 1000 are 1e-4, and exp keeps them
    const AttentionRows rows = Prepare(desk, attention);
    desk.executor().Attention(attention.shape, rows.inputs, rows.out);
    return rows.out;
  });
}

// A NaN in a key reaches the tokens that attend to it; one in a value reaches its column.
TEST_P(ExecutorAttention, PropagatesNan) {
  const AttentionCase attention = {"", {4, 2, 16, 16, 2, 3, 0, 0.25f}, 8};
  Check(kAttention, [&](Desk& desk) {
    const AttentionRows rows = Prepare(desk, attention);
    const float nan = std::numeric_limits<float>::quiet_NaN();
    desk.Plant(rows.inputs.keys, 4, 3, nan);
    desk.Plant(rows.inputs.values, 9, 20, nan);
    desk.executor().Attention(attention.shape, rows.inputs, rows.out);
    return rows.out;
  });
}

class ExecutorRotation : public EachExecutor {};

struct RotationCase {
  Rotation rotation;
  Layout layout;  // its width is set from the rotation
};

// heads, head width, first, dims
constexpr RotationCase kRotations[] = {
    {{1, 2, 0, 2}, {1, 0}},      {{4, 16, 0, 16}, {5, 0, 3, 2}}, {{3, 24, 0, 8}, {7, 0, 1}},
    {{2, 20, 12, 8}, {2, 0}},    {{8, 64, 0, 64}, {33, 0, 5}},   {{5, 128, 64, 64}, {3, 0}},
    {{1, 576, 512, 64}, {4, 0}},
};

TEST_P(ExecutorRotation, MatchesTheReferenceForBothPairings) {
  for (const Pairing pairing : {Pairing::kNeighbours, Pairing::kHalves}) {
    for (RotationCase shape : kRotations) {
      shape.rotation.pairing = pairing;
      shape.layout.width = shape.rotation.heads * shape.rotation.head_width;
      SCOPED_TRACE(::testing::Message() << shape.layout.width << ", " << shape.rotation.dims);
      Check(kRounded, [&](Desk& desk) {
        const Rows x = desk.Random(shape.layout);
        const Rows turns = desk.Random({shape.layout.count, shape.rotation.dims, 2, 1});
        desk.Plant(x, 0, shape.rotation.first, std::numeric_limits<float>::quiet_NaN());
        desk.executor().Rotate(x, shape.rotation, turns);
        return x;
      });
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, ExecutorAttention, ::testing::ValuesIn(AllExecutorKinds()), KindName);
INSTANTIATE_TEST_SUITE_P(, ExecutorRotation, ::testing::ValuesIn(AllExecutorKinds()), KindName);

}  // namespace
}  // namespace moepack::runtime
