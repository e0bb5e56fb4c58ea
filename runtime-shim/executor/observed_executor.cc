#include "runtime-shim/executor/observed_executor.h"

#include <algorithm>

namespace moepack::runtime {

Result<BufferPtr> ObservedExecutor::Load(const TensorBytes& bytes) {
  SHARD_TRY(BufferPtr buffer, executor_->Load(bytes));
  observer_.Loaded(*buffer, bytes);
  return buffer;
}

Status ObservedExecutor::Read(const Rows& from, std::span<float> values) {
  SHARD_CHECK(seen_);
  return executor_->Read(from, values);
}

Status ObservedExecutor::Finish() {
  SHARD_CHECK(seen_);
  return executor_->Finish();
}

Status ObservedExecutor::MixExperts(const ExpertBatch& batch, OutputSizes* sizes) {
  const auto wanted = [&](const Linear& linear) {
    return linear.weight && observer_.Wants(linear.weight);
  };
  const bool any =
      std::any_of(batch.experts.begin(), batch.experts.end(), [&](const ExpertRows& expert) {
        return wanted(expert.weights->gate) || wanted(expert.weights->up) ||
               wanted(expert.weights->down);
      });
  return any ? Executor::MixExperts(batch, sizes) : executor_->MixExperts(batch, sizes);
}

void ObservedExecutor::MatMul(const Matrix& weights, const Rows& x, const Rows& y) {
  if (observer_.Skips()) return;
  if (seen_ && observer_.Wants(weights)) {
    inputs_.resize(x.values());
    seen_ = executor_->Read(x, inputs_);
    if (seen_) observer_.Multiplied(weights, inputs_);
  }
  executor_->MatMul(observer_.InsteadOf(weights), x, y);
}

}  // namespace moepack::runtime
