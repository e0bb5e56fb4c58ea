// The experts of a layer, on every executor, against the reference, and on the CPU the same bits
// however the batch is divided.
#include <cstring>
#include <string_view>
#include <tuple>

#include "tests/runtime-shim/executor/conformance.h"

namespace moepack::runtime {
namespace {

// Three consecutive products, with an activation between them.
constexpr double kMlp = 1e-4;
constexpr uint32_t kTokens = 23, kWidth = 96;

struct ExpertShape {
  std::string_view format = "q8_0";
  uint32_t inner = 64;
  bool bias = false, weigh_inputs = false;
  Activation activation = Activation::kSilu;
};

// Six experts and the tokens that chose them: one token, all tokens, and some of them.
class Experts {
 public:
  Experts(Desk& desk, const ExpertShape& shape) : desk_(desk), shape_(shape) {
    for (size_t id = 0; id < 6; ++id) mlps_.push_back({Layer(true), Layer(true), Layer(false)});
    x_ = desk.Random({kTokens, kWidth, 3, 2});
  }

  // The results of tokens [first, first + count), in rows that held garbage.
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
    batch.sum = rows(kWidth);
    batch.activation = shape_.activation;
    batch.weigh_inputs = shape_.weigh_inputs;
    batch.in = rows(kWidth), batch.out = rows(kWidth);
    batch.gate = rows(shape_.inner), batch.up = rows(shape_.inner);
    batch.zeros = rows(kWidth);
    desk_.executor().Write(std::vector<float>(size_t{count} * kWidth, 0), batch.zeros);
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
    const uint32_t rows = in ? shape_.inner : kWidth, columns = in ? kWidth : shape_.inner;
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

class ExecutorExperts : public EachExecutor {
 protected:
  void CheckShape(const ExpertShape& shape) {
    std::vector<OutputSizes> sizes;
    Check(kMlp,
          [&](Desk& desk) { return Experts(desk, shape).Mix(0, kTokens, &sizes.emplace_back()); });
    ASSERT_EQ(sizes.size(), 2u);
    ExpectNear(sizes[1].norms, sizes[0].norms, kMlp);
    ExpectNear(sizes[1].peaks, sizes[0].peaks, kMlp);
    EXPECT_GT(sizes[0].norms.size(), size_t{kTokens});
  }
};

TEST_P(ExecutorExperts, MatchTheReferenceInEveryKindOfModel) {
  CheckShape({});
  CheckShape({"f32", 70, true, false, Activation::kClampedSilu});
  CheckShape({"bf16", 33, false, true, Activation::kSilu});
  CheckShape({"q4_0", 160, true, true, Activation::kGelu});
}

TEST_P(ExecutorExperts, MatchTheReferenceWithoutStatedSizes) {
  Check(kMlp, [](Desk& desk) { return Experts(desk, {}).Mix(0, kTokens); });
}

INSTANTIATE_TEST_SUITE_P(, ExecutorExperts, ::testing::ValuesIn(AllExecutorKinds()), KindName);

TEST(CpuExperts, GiveTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  std::vector<float> whole;
  for (const uint32_t threads : {1u, 2u, 5u}) {
    auto executor = OpenExecutor("cpu", {.threads = threads});
    ASSERT_TRUE(executor.has_value());
    Desk desk(**executor);
    Experts experts(desk, {});
    const std::vector<float> all = desk.Take(experts.Mix(0, kTokens)).values;
    if (whole.empty()) whole = all;
    EXPECT_EQ(all, whole) << threads;
    for (uint32_t first = 0; first < kTokens; first += 3) {
      const uint32_t count = std::min(3u, kTokens - first);
      const std::vector<float> part = desk.Take(experts.Mix(first, count)).values;
      EXPECT_EQ(
          std::memcmp(part.data(), &whole[size_t{first} * kWidth], part.size() * sizeof(float)), 0)
          << first;
    }
  }
}

}  // namespace
}  // namespace moepack::runtime
