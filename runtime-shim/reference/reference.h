// The reference executor: one plain loop per operation, sums in double, rounded to F32 once at the
// end. Slow, and easy to check by eye; every other executor is compared with it
// (tests/runtime-shim/executor/conformance_test.cc). It has no row in executors.cc.
#pragma once

#include <functional>
#include <string>

#include "runtime-shim/reference/host_executor.h"

namespace moepack::runtime {

class ReferenceExecutor : public HostExecutor {
 public:
  std::string name() const override { return "reference"; }
  std::string description() const override { return "plain loops, sums in double"; }

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override;
  void Embed(const Matrix& weights, std::span<const uint32_t> ids, const Rows& y) override;
  void RmsNorm(const Rows& x, const NormWeights& norm, const Rows& y) override;
  void MeasureRows(const Rows& x, const Rows& sizes) override;
  void Copy(const Rows& from, const Rows& to) override;
  void Transpose(const Rows& x, const Rows& y) override;
  void AddBias(const Rows& x, const Matrix& bias) override;
  void Add(const Rows& x, const Rows& y, float scale) override;
  void Scale(const Rows& x, float factor) override;
  void ScaleRows(const Rows& x, std::span<const float> factors) override;
  void ScaleBySigmoid(const Rows& x, const Rows& gate) override;
  void Activate(Activation activation, const Rows& gate, const Rows& up) override;
  void Rotate(const Rows& x, const Rotation& rotation, const Rows& turns) override;
  void Attention(const AttentionShape& shape, const AttentionInputs& inputs,
                 const Rows& out) override;
  void Gather(const Rows& x, std::span<const uint32_t> rows, std::span<const float> factors,
              const Rows& y) override;
  void ScatterAdd(const Rows& x, std::span<const uint32_t> rows, std::span<const float> factors,
                  const Rows& y) override;

 protected:
  // Does `work` for each of `rows.count` rows, which do not depend on each other: here one after
  // another.
  virtual void ForEachRow(const Rows& rows, const std::function<void(uint32_t row)>& work);
};

}  // namespace moepack::runtime
