#include "runtime-shim/cuda/dense_algebra.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "libshard/base/text/text.h"
#include "runtime-shim/cuda/algebra_kernels.h"
#include "runtime-shim/cuda/cuda_executor.h"
#include "runtime-shim/cuda/operands.h"

namespace moepack::runtime::cuda {
namespace {

Error LibraryError(const char* library, const char* operation, int status) {
  return {Code::kUnavailable, Cat("cuda: ", operation, ": ", library, " status ", status)};
}

// What the libraries count in.
int IntOf(uint64_t value) { return static_cast<int>(value); }

cublasOperation_t OperationOf(const Factor& factor) {
  return factor.turned ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

Result<std::unique_ptr<CudaAlgebra>> CudaAlgebra::Make(CudaExecutor& executor) {
  std::unique_ptr<CudaAlgebra> algebra(new CudaAlgebra(executor));
  SHARD_CHECK(algebra->Prepare());
  return algebra;
}

Status CudaAlgebra::Prepare() {
  SHARD_TRY(libraries_, OpenLibraries());
  if (const auto status = libraries_.create_blas(&blas_))
    return LibraryError("cuBLAS", "start", status);
  if (const auto status = libraries_.set_blas_stream(blas_, executor_.stream()))
    return LibraryError("cuBLAS", "stream", status);
  // In this mode products of floats are floats; TF32 would have to be asked for.
  if (const auto status = libraries_.set_mode(blas_, CUBLAS_DEFAULT_MATH))
    return LibraryError("cuBLAS", "mode", status);
  if (const auto status = libraries_.create_solver(&solver_))
    return LibraryError("cuSOLVER", "start", status);
  if (const auto status = libraries_.set_solver_stream(solver_, executor_.stream()))
    return LibraryError("cuSOLVER", "stream", status);
  SHARD_TRY(info_, DeviceBuffer::Make(executor_.device(), sizeof(int)));
  return Ok();
}

CudaAlgebra::~CudaAlgebra() {
  if (solver_ != nullptr) libraries_.destroy_solver(solver_);
  if (blas_ != nullptr) libraries_.destroy_blas(blas_);
}

void CudaAlgebra::Note(const char* operation, cublasStatus_t status) {
  if (status != CUBLAS_STATUS_SUCCESS) Fail("cuBLAS", operation, static_cast<int>(status));
}

void CudaAlgebra::Note(const char* operation, cusolverStatus_t status) {
  if (status != CUSOLVER_STATUS_SUCCESS) Fail("cuSOLVER", operation, static_cast<int>(status));
}

void CudaAlgebra::Fail(const char* library, const char* operation, int status) {
  executor_.Note(operation, cudaStreamSynchronize(executor_.stream()));
  executor_.Fail(LibraryError(library, operation, status));
}

uint8_t* CudaAlgebra::Scratch(uint64_t bytes) {
  if (scratch_ == nullptr || scratch_->bytes() < bytes) {
    scratch_.reset();
    auto made = DeviceBuffer::Make(executor_.device(), bytes);
    if (!made) {
      executor_.Fail(made.error());
      return nullptr;
    }
    scratch_ = std::move(*made);
  }
  return scratch_->data();
}

// (a b)' = b' a', so that cuBLAS, which sees all three transposed, gets them in this order.
void CudaAlgebra::Multiply(const Factor& a, const Factor& b, const Rows& out) {
  if (!executor_.Ready() || out.count == 0 || out.width == 0) return;
  const Floats left = FloatsOf(a.rows), right = FloatsOf(b.rows), to = FloatsOf(out);
  const float one = 1, none = 0;
  Note("product", libraries_.multiply(blas_, OperationOf(b), OperationOf(a), IntOf(out.width),
                                      IntOf(out.count), IntOf(a.width()), &one, right.data,
                                      IntOf(right.stride), left.data, IntOf(left.stride), &none,
                                      to.data, IntOf(to.stride)));
}

void CudaAlgebra::AddProduct(const Rows& a, const Rows& b, uint32_t some, const Doubles& sums) {
  if (!executor_.Ready() || a.width == 0 || b.width == 0) return;
  auto* const data = reinterpret_cast<float*>(Scratch(uint64_t{a.width} * b.width * sizeof(float)));
  if (data == nullptr) return;
  const Rows part = {scratch_.get(), 0, a.width, b.width, b.width};
  for (uint32_t first = 0; first < a.count; first += some) {
    const uint32_t count = std::min(some, a.count - first);
    Multiply(Turned(a.Slice(first, count)), Straight(b.Slice(first, count)), part);
    cuda::AddToSums(FloatsOf(part), DoublesOf(sums), executor_.stream());
  }
  executor_.NoteLaunch("sums of products");
}

void CudaAlgebra::Clear(const Doubles& values) {
  if (!executor_.Ready()) return;
  cuda::Clear(DoublesOf(values), executor_.stream());
  executor_.NoteLaunch("clearing");
}

DoubleValues CudaAlgebra::Gathered(const DoubleValues& column) {
  auto* const room = reinterpret_cast<double*>(Scratch(uint64_t{column.count} * sizeof(double)));
  if (room == nullptr) return column;
  const DoubleValues gathered = {room, column.count, 1, column.count};
  cuda::CopyColumn(column, gathered, executor_.stream());
  executor_.NoteLaunch("column");
  return gathered;
}

Status CudaAlgebra::Read(const Doubles& from, std::span<double> values) {
  if (executor_.Ready() && !values.empty()) {
    DoubleValues source = DoublesOf(from);
    // A diagonal is gathered first, because copying value by value is slow.
    if (source.width == 1 && source.stride > 1) source = Gathered(source);
    executor_.CopyToHost(
        {reinterpret_cast<const uint8_t*>(source.data), source.width * sizeof(double),
         source.stride * sizeof(double), source.count},
        values.data());
  }
  return executor_.Finish();
}

void CudaAlgebra::AddToDiagonal(const Doubles& matrix, double value) {
  if (!executor_.Ready()) return;
  cuda::AddToDiagonal(DoublesOf(matrix), value, executor_.stream());
  executor_.NoteLaunch("diagonal");
}

Result<bool> CudaAlgebra::Factorize(const Doubles& matrix) {
  if (matrix.count == 0) return true;
  if (!executor_.Ready()) return executor_.Finish().error();
  const DoubleValues own = DoublesOf(matrix);
  const int size = IntOf(own.count), stride = IntOf(own.stride);
  int wanted = 0;
  Note("factor",
       libraries_.room_of_factor(solver_, CUBLAS_FILL_MODE_LOWER, size, own.data, stride, &wanted));
  auto* const room =
      reinterpret_cast<double*>(Scratch(static_cast<uint64_t>(wanted) * sizeof(double)));
  if (!executor_.Ready()) return executor_.Finish().error();
  auto* const info = reinterpret_cast<int*>(info_->data());
  Note("factor", libraries_.factorize(solver_, CUBLAS_FILL_MODE_LOWER, size, own.data, stride, room,
                                      wanted, info));
  executor_.Note("read", cudaMemcpyAsync(&broken_, info, sizeof(broken_), cudaMemcpyDeviceToHost,
                                         executor_.stream()));
  // A value that is not finite ends up in a pivot, which cuSOLVER need not notice.
  std::vector<double> pivots(own.count);
  const Doubles diagonal = {matrix.buffer, matrix.offset, matrix.count, 1, matrix.stride + 1};
  SHARD_CHECK(Read(diagonal, pivots));
  return broken_ == 0 && std::all_of(pivots.begin(), pivots.end(), [](double pivot) {
           return std::isfinite(pivot) && pivot > 0;
         });
}

void CudaAlgebra::Solve(const Doubles& factor, const Doubles& right) {
  if (!executor_.Ready() || right.count == 0 || right.width == 0) return;
  const DoubleValues own = DoublesOf(factor), sides = DoublesOf(right);
  Note("solution", libraries_.solve(solver_, CUBLAS_FILL_MODE_LOWER, IntOf(own.count),
                                    IntOf(sides.count), own.data, IntOf(own.stride), sides.data,
                                    IntOf(sides.stride), reinterpret_cast<int*>(info_->data())));
}

// With A = L L', the inverse is (L^-1)' L^-1: its diagonal has the squares of the columns of L^-1,
// which are the rows of its transpose.
void CudaAlgebra::InvertDiagonal(const Doubles& factor, const Doubles& diagonal) {
  if (!executor_.Ready() || factor.count == 0) return;
  const uint64_t size = factor.count;
  auto* const room = reinterpret_cast<double*>(Scratch(size * size * sizeof(double)));
  if (room == nullptr) return;
  const DoubleValues inverse = {room, size, factor.count, factor.count};
  cuda::SetIdentity(inverse, executor_.stream());
  const DoubleValues own = DoublesOf(factor);
  const double one = 1;
  Note("inverse",
       libraries_.solve_triangle(blas_, CUBLAS_SIDE_LEFT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T,
                                 CUBLAS_DIAG_NON_UNIT, IntOf(size), IntOf(size), &one, own.data,
                                 IntOf(own.stride), inverse.data, IntOf(size)));
  cuda::SumSquares(inverse, DoublesOf(diagonal), executor_.stream());
  executor_.NoteLaunch("inverse");
}

void CudaAlgebra::SumSquares(const Rows& values, const Doubles& squares) {
  if (!executor_.Ready()) return;
  cuda::SumSquares(FloatsOf(values), DoublesOf(squares), executor_.stream());
  executor_.NoteLaunch("squares");
}

void CudaAlgebra::SumSquares(const Doubles& values, const Doubles& squares) {
  if (!executor_.Ready()) return;
  cuda::SumSquares(DoublesOf(values), DoublesOf(squares), executor_.stream());
  executor_.NoteLaunch("squares");
}

void CudaAlgebra::TakeColumns(const Doubles& from, std::span<const uint32_t> columns,
                              bool symmetric, const Doubles& to) {
  if (!executor_.Ready() || columns.empty()) return;
  uint8_t* const list = Scratch(columns.size_bytes());
  if (list == nullptr) return;
  executor_.Note("write", executor_.upload().Copy(std::as_bytes(columns), list));
  cuda::TakeColumns(DoublesOf(from), reinterpret_cast<const uint32_t*>(list), symmetric,
                    DoublesOf(to), executor_.stream());
  executor_.NoteLaunch("columns");
}

void CudaAlgebra::SetDifference(const Rows& a, const Rows& b, double factor, const Doubles& right) {
  if (!executor_.Ready()) return;
  cuda::SetDifference(FloatsOf(a), FloatsOf(b), factor, DoublesOf(right), executor_.stream());
  executor_.NoteLaunch("difference");
}

void CudaAlgebra::Change(const Doubles& change, const Rows& values, const Rows& moved) {
  if (!executor_.Ready()) return;
  cuda::Change(DoublesOf(change), FloatsOf(values), FloatsOf(moved), executor_.stream());
  executor_.NoteLaunch("change");
}

void CudaAlgebra::ActivateWithSlopes(Activation activation, const Rows& gate, const Rows& up,
                                     const Rows& out) {
  if (!executor_.Ready()) return;
  const Floats other = up.buffer != nullptr ? FloatsOf(up) : Floats{};
  cuda::ActivateWithSlopes(activation, FloatsOf(gate), other, FloatsOf(out), executor_.stream());
  executor_.NoteLaunch("slopes");
}

void CudaAlgebra::MultiplyValues(const Rows& x, const Rows& y) {
  if (!executor_.Ready()) return;
  cuda::MultiplyValues(FloatsOf(x), FloatsOf(y), executor_.stream());
  executor_.NoteLaunch("products of values");
}

void CudaAlgebra::Dots(const Rows& a, const Rows& b, const Rows& out) {
  if (!executor_.Ready()) return;
  cuda::Dots(FloatsOf(a), FloatsOf(b), FloatsOf(out), executor_.stream());
  executor_.NoteLaunch("products of rows");
}

void CudaAlgebra::Descend(const AdamStep& step, const AdamRows& rows) {
  if (!executor_.Ready()) return;
  cuda::Descend(
      step,
      {FloatsOf(rows.slopes), FloatsOf(rows.firsts), FloatsOf(rows.seconds), FloatsOf(rows.values)},
      executor_.stream());
  executor_.NoteLaunch("step");
}

}  // namespace moepack::runtime::cuda
