// An executor that shows the inputs of every product, and leaves the rest to another executor.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

// Is told where weights are and what they are multiplied with.
class ProductObserver {
 public:
  virtual ~ProductObserver() = default;
  // Weights were loaded.
  void Loaded(const Buffer& buffer, const TensorBytes& weights) { loaded_[&buffer] = weights; }
  // The weights that a buffer was loaded from; none if it is another's.
  const TensorBytes& LoadedFrom(const Buffer* buffer) const {
    static const TensorBytes none;
    const auto found = loaded_.find(buffer);
    return found == loaded_.end() ? none : found->second;
  }
  // Whether Multiplied should be called for these weights, which requires reading back inputs.
  virtual bool Wants(const Matrix& weights) const = 0;
  // Weights are multiplied with these rows, of weights.columns values each.
  virtual void Multiplied(const Matrix& weights, std::span<const float> inputs) = 0;
  // The matrix to multiply with instead: the same weights in another type.
  virtual Matrix InsteadOf(const Matrix& weights) const { return weights; }
  // Whether operations may be left out because nobody needs the rest of the pass.
  virtual bool Skips() const { return false; }

 private:
  std::map<const Buffer*, TensorBytes> loaded_;
};

// Gives the same bits as the executor that it wraps. MixExperts is composed of other operations
// while the observer wants a product of its experts, so that they are seen; the norms of
// OutputSizes may then be rounded elsewhere. An error when reading back inputs is returned by the
// next Read or Finish.
class ObservedExecutor final : public Executor {
 public:
  // Borrows the observer.
  ObservedExecutor(std::shared_ptr<Executor> executor, ProductObserver& observer)
      : executor_(std::move(executor)), observer_(observer) {}

  std::string name() const override { return executor_->name(); }
  std::string description() const override { return executor_->description(); }
  uint64_t available() const override { return executor_->available(); }
  bool Supports(const quant::Format* format) const override { return executor_->Supports(format); }
  // The observer does not see its products.
  DenseAlgebra* algebra() override { return executor_->algebra(); }
  std::optional<Error> WithoutAlgebra() override { return executor_->WithoutAlgebra(); }

  Result<BufferPtr> Allocate(uint64_t bytes) override { return executor_->Allocate(bytes); }
  Result<BufferPtr> Load(const TensorBytes& bytes) override;
  void Write(std::span<const float> values, const Rows& to) override {
    executor_->Write(values, to);
  }
  Status Read(const Rows& from, std::span<float> values) override;
  Status Finish() override;

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override;
#define SHARD_FORWARD(name, parameters, names)     \
  void name parameters override {                  \
    if (!observer_.Skips()) executor_->name names; \
  }
  SHARD_OPERATIONS(SHARD_FORWARD)
#undef SHARD_FORWARD
  Status MixExperts(const ExpertBatch& batch, OutputSizes* sizes) override;

 private:
  std::shared_ptr<Executor> executor_;
  ProductObserver& observer_;
  std::vector<float> inputs_;
  Status seen_ = Ok();
};

}  // namespace moepack::runtime
