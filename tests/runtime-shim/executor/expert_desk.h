// The experts of a layer on a desk, the same ones on every executor.
#pragma once

#include <string_view>
#include <vector>

#include "runtime-shim/executor/executor.h"
#include "tests/runtime-shim/executor/desk.h"

namespace moepack::runtime {

// Three products after each other, with an activation between them.
inline constexpr double kMlp = 1e-4;
inline constexpr uint32_t kExpertTokens = 23, kExpertWidth = 96;

struct ExpertShape {
  std::string_view format = "q8_0";
  uint32_t inner = 64;
  bool bias = false, weigh_inputs = false;
  Activation activation = Activation::kSilu;
};

// Six experts on a desk and who picked them: one token, all tokens, and some of them.
class DeskExperts {
 public:
  DeskExperts(Desk& desk, const ExpertShape& shape) : desk_(desk), shape_(shape) {
    for (size_t id = 0; id < 6; ++id) mlps_.push_back({Layer(true), Layer(true), Layer(false)});
    x_ = desk.Random({kExpertTokens, kExpertWidth, 3, 2});
  }

  // What the tokens [first, first + count) get, in rows with garbage in them.
  Rows Mix(uint32_t first, uint32_t count, OutputSizes* sizes = nullptr) {
    std::vector<ExpertRows> experts;
    for (uint32_t id = 0; id < mlps_.size(); ++id) {
      ExpertRows expert = {&mlps_[id], {}, {}};
      for (uint32_t token = first; token < first + count; ++token) {
        if (!Picks(token, id)) continue;
        expert.rows.push_back(token - first);
        expert.gates.push_back(0.1f * static_cast<float>(1 + (token + id) % 7));
      }
      if (!expert.rows.empty()) experts.push_back(std::move(expert));
    }
    const auto rows = [&](uint32_t width) { return desk_.Random({count, width, 1, 3}); };
    ExpertBatch batch;
    batch.experts = experts;
    batch.x = x_.Slice(first, count);
    batch.sum = rows(kExpertWidth);
    batch.activation = shape_.activation;
    batch.weigh_inputs = shape_.weigh_inputs;
    batch.in = rows(kExpertWidth), batch.out = rows(kExpertWidth);
    batch.gate = rows(shape_.inner), batch.up = rows(shape_.inner);
    batch.zeros = rows(kExpertWidth);
    batch.sizes = desk_.Random({count * static_cast<uint32_t>(mlps_.size()), 2, 1, 3});
    desk_.executor().Write(std::vector<float>(size_t{count} * kExpertWidth, 0), batch.zeros);
    const Status done = desk_.executor().MixExperts(batch, sizes);
    EXPECT_TRUE(done) << (done ? "" : done.error().message);
    return batch.sum;
  }

 private:
  static bool Picks(uint32_t token, uint32_t id) {
    if (id == 2) return true;
    if (id == 4) return token == 5;
    return (token * 7 + id * 3) % 5 < 2;
  }

  Linear Layer(bool in) {
    const uint32_t rows = in ? shape_.inner : kExpertWidth,
                   columns = in ? kExpertWidth : shape_.inner;
    Linear layer;
    layer.weight = desk_.Weights(*quant::FindFormat(shape_.format), rows, columns);
    if (shape_.bias) layer.bias = desk_.Vector(rows);
    return layer;
  }

  Desk& desk_;
  ExpertShape shape_;
  std::vector<MlpWeights> mlps_;
  Rows x_;
};

}  // namespace moepack::runtime
