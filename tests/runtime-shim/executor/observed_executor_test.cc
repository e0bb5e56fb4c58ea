#include "runtime-shim/executor/observed_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime-shim/devices/executors.h"
#include "tests/runtime-shim/executor/desk.h"

namespace moepack::runtime {
namespace {

using testing::ElementsAre;

class Recorder final : public ProductObserver {
 public:
  bool Wants(const Matrix&) const override { return wants; }
  void Multiplied(const Matrix& weights, std::span<const float> values) override {
    matrices.push_back(weights.buffer);
    inputs.assign(values.begin(), values.end());
  }
  bool wants = true;
  std::vector<const Buffer*> matrices;
  std::vector<float> inputs;
};

class Observed : public testing::Test {
 protected:
  Observed() {
    auto opened = OpenExecutor("cpu", {});
    EXPECT_TRUE(opened.has_value());
    inner_ = std::move(*opened);
    executor_ = std::make_unique<ObservedExecutor>(inner_, recorder_);
    desk_ = std::make_unique<Desk>(*executor_);
  }
  std::vector<float> ValuesOf(const Rows& rows) {
    std::vector<float> values(rows.values());
    EXPECT_TRUE(executor_->Read(rows, values));
    return values;
  }

  Recorder recorder_;
  std::shared_ptr<Executor> inner_;
  std::unique_ptr<ObservedExecutor> executor_;
  std::unique_ptr<Desk> desk_;
};

TEST_F(Observed, ShowsTheInputRowsOfAProduct) {
  const Matrix weights = desk_->Weights(*quant::FindFormat("f32"), 4, 8);
  const Rows x = desk_->Random({3, 8, 5}), y = desk_->Random({3, 4});
  executor_->MatMul(weights, x, y);
  EXPECT_EQ(recorder_.LoadedFrom(weights.buffer).size(), weights.buffer->bytes());
  EXPECT_TRUE(recorder_.LoadedFrom(x.buffer).empty());
  EXPECT_THAT(recorder_.matrices, ElementsAre(weights.buffer));
  EXPECT_EQ(recorder_.inputs, ValuesOf(x));
}

TEST_F(Observed, GivesTheResultsOfTheExecutorInside) {
  const Matrix weights = desk_->Weights(*quant::FindFormat("q8_0"), 4, 32);
  const Rows x = desk_->Random({3, 32}), y = desk_->Random({3, 4}), z = desk_->Random({3, 4});
  executor_->MatMul(weights, x, y);
  inner_->MatMul(weights, x, z);
  EXPECT_EQ(ValuesOf(y), ValuesOf(z));
  EXPECT_EQ(executor_->name(), "cpu");
}

TEST_F(Observed, ShowsNothingThatWasNotRequested) {
  recorder_.wants = false;
  const Matrix weights = desk_->Weights(*quant::FindFormat("f32"), 4, 8);
  const Rows x = desk_->Random({3, 8}), y = desk_->Random({3, 4});
  executor_->MatMul(weights, x, y);
  EXPECT_TRUE(recorder_.matrices.empty());
}

}  // namespace
}  // namespace moepack::runtime
