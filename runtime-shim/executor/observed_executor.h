// An executor that shows the inputs of every product, and leaves the rest to another executor.
#pragma once

#include <memory>
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
  virtual void Loaded(const Buffer& buffer, std::span<const std::byte> weights) = 0;
  // Whether Multiplied should be called for these weights, which requires reading back inputs.
  virtual bool Wants(const Matrix& weights) const = 0;
  // Weights are multiplied with these rows, of weights.columns values each.
  virtual void Multiplied(const Matrix& weights, std::span<const float> inputs) = 0;
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

  Result<BufferPtr> Allocate(uint64_t bytes) override { return executor_->Allocate(bytes); }
  Result<BufferPtr> Load(std::span<const std::byte> bytes) override;
  void Write(std::span<const float> values, const Rows& to) override {
    executor_->Write(values, to);
  }
  Status Read(const Rows& from, std::span<float> values) override;
  Status Finish() override;

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override;
  void Embed(const Matrix& weights, std::span<const uint32_t> ids, const Rows& y) override {
    executor_->Embed(weights, ids, y);
  }
  void RmsNorm(const Rows& x, const NormWeights& norm, const Rows& y) override {
    executor_->RmsNorm(x, norm, y);
  }
  void MeasureRows(const Rows& x, const Rows& sizes) override { executor_->MeasureRows(x, sizes); }
  void Copy(const Rows& from, const Rows& to) override { executor_->Copy(from, to); }
  void Transpose(const Rows& x, const Rows& y) override { executor_->Transpose(x, y); }
  void AddBias(const Rows& x, const Matrix& bias) override { executor_->AddBias(x, bias); }
  void Add(const Rows& x, const Rows& y, float scale) override { executor_->Add(x, y, scale); }
  void Scale(const Rows& x, float factor) override { executor_->Scale(x, factor); }
  void ScaleRows(const Rows& x, std::span<const float> factors) override {
    executor_->ScaleRows(x, factors);
  }
  void ScaleBySigmoid(const Rows& x, const Rows& gate) override {
    executor_->ScaleBySigmoid(x, gate);
  }
  void Activate(Activation activation, const Rows& gate, const Rows& up) override {
    executor_->Activate(activation, gate, up);
  }
  void Rotate(const Rows& x, const Rotation& rotation, const Rows& turns) override {
    executor_->Rotate(x, rotation, turns);
  }
  void Attention(const AttentionShape& shape, const AttentionInputs& inputs,
                 const Rows& out) override {
    executor_->Attention(shape, inputs, out);
  }
  void Gather(const Rows& x, std::span<const uint32_t> rows, std::span<const float> factors,
              const Rows& y) override {
    executor_->Gather(x, rows, factors, y);
  }
  void ScatterAdd(const Rows& x, std::span<const uint32_t> rows, std::span<const float> factors,
                  const Rows& y) override {
    executor_->ScatterAdd(x, rows, factors, y);
  }
  Status MixExperts(const ExpertBatch& batch, OutputSizes* sizes) override;

 private:
  std::shared_ptr<Executor> executor_;
  ProductObserver& observer_;
  std::vector<float> inputs_;
  Status seen_ = Ok();
};

}  // namespace moepack::runtime
