// DenseAlgebra on one GPU: products of cuBLAS, factors of cuSOLVER, and kernels of ours for what
// neither has. Both libraries expect columns one after another, so they see each of our matrices
// transposed: the upper triangle of a symmetric one is their lower, and a row of right sides is a
// column.
#pragma once

#include <memory>
#include <optional>

#include "runtime-shim/cuda/libraries.h"
#include "runtime-shim/cuda/memory.h"
#include "runtime-shim/cuda/products.h"
#include "runtime-shim/executor/dense_algebra.h"

namespace moepack::runtime::cuda {

class CudaExecutor;

class CudaAlgebra : public DenseAlgebra {
 public:
  // Borrows the executor, whose stream everything runs in and to which later errors are noted.
  // kUnavailable if the libraries do not start.
  static Result<std::unique_ptr<CudaAlgebra>> Make(CudaExecutor& executor);
  ~CudaAlgebra() override;

  void Release() override { scratch_.reset(); }
  void Multiply(const Factor& a, const Factor& b, const Rows& out) override;
  void AddProduct(const Rows& a, const Rows& b, uint32_t some, const Doubles& sums) override;

  void Clear(const Doubles& values) override;
  Status Read(const Doubles& from, std::span<double> values) override;
  void AddToDiagonal(const Doubles& matrix, double value) override;
  Result<bool> Factorize(const Doubles& matrix) override;
  void Solve(const Doubles& factor, const Doubles& right) override;
  void InvertDiagonal(const Doubles& factor, const Doubles& diagonal) override;
  void SumSquares(const Rows& values, const Doubles& squares) override;
  void SumSquares(const Doubles& values, const Doubles& squares) override;
  void TakeColumns(const Doubles& from, std::span<const uint32_t> columns, bool symmetric,
                   const Doubles& to) override;
  void SetDifference(const Rows& a, const Rows& b, double factor, const Doubles& right) override;
  void Change(const Doubles& change, const Rows& values, const Rows& moved) override;

  void ActivateWithSlopes(Activation activation, const Rows& gate, const Rows& up,
                          const Rows& out) override;
  void MultiplyValues(const Rows& x, const Rows& y) override;
  void Dots(const Rows& a, const Rows& b, const Rows& out) override;
  void Descend(const AdamStep& step, const AdamRows& rows) override;

 private:
  explicit CudaAlgebra(CudaExecutor& executor) : executor_(executor) {}
  Status Prepare();
  void Note(const char* operation, cublasStatus_t status);
  void Note(const char* operation, cusolverStatus_t status);
  // A library also fails on a device that is lost, whose own error says more.
  void Fail(const char* library, const char* operation, int status);
  // At least this many bytes, for one operation at a time; null, and noted, if there are too few.
  uint8_t* Scratch(uint64_t bytes);
  // A column as a row without gaps, in the scratch.
  DoubleValues Gathered(const DoubleValues& column);

  CudaExecutor& executor_;
  Libraries libraries_;
  cublasHandle_t blas_ = nullptr;
  cusolverDnHandle_t solver_ = nullptr;
  std::unique_ptr<DeviceBuffer> scratch_, info_;  // info_: what cuSOLVER says about a matrix
  int broken_ = 0;  // the row in which a pivot is not positive; an error may leave its copy queued
};

}  // namespace moepack::runtime::cuda
