// The algebra of the CUDA executor beside plain loops and the host's functions, with the libraries
// of the emulated device, which refuse wrong arguments.
#include "runtime-shim/cuda/dense_algebra.h"

#include <cublas_v2.h>
#include <cusolverDn.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "runtime-shim/cuda/cuda.h"
#include "runtime-shim/executor/observed_executor.h"
#include "runtime-shim/gradient/adam.h"
#include "runtime-shim/gradient/gradients.h"
#include "runtime-shim/refit/cholesky.h"
#include "tests/runtime-shim/random_floats.h"

namespace moepack::runtime {
namespace {

class CudaAlgebraEmulated : public ::testing::Test {
 protected:
  void SetUp() override {
    emulation::TheMachine() = {};
    auto opened = OpenCuda({});
    ASSERT_TRUE(opened) << opened.error().message;
    executor_ = std::move(*opened);
    ASSERT_NE(executor_->algebra(), nullptr);
  }
  void TearDown() override {
    buffers_.clear();
    executor_.reset();
    emulation::TheMachine() = {};
  }

  DenseAlgebra& algebra() { return *executor_->algebra(); }

  // Values with a gap behind each row.
  Rows RowsOf(const std::vector<float>& values, uint32_t width, uint32_t gap = 2) {
    const auto count = static_cast<uint32_t>(values.size() / width);
    const Rows rows = {Allocate(uint64_t{count} * (width + gap) * 4 + 12), 3, count, width,
                       width + gap};
    executor_->Write(values, rows);
    return rows;
  }
  Rows EmptyRows(uint32_t count, uint32_t width) {
    return RowsOf(std::vector<float>(size_t{count} * width, 77), width);
  }
  Doubles DoublesOf(const std::vector<double>& values, uint32_t width, uint32_t gap = 3) {
    const auto count = static_cast<uint32_t>(values.size() / width);
    std::vector<double> stored(1 + size_t{count} * (width + gap));
    for (size_t i = 0; i < values.size(); ++i)
      stored[1 + i / width * (width + gap) + i % width] = values[i];
    auto loaded = executor_->Load(std::as_bytes(std::span(stored)));
    EXPECT_TRUE(loaded) << loaded.error().message;
    buffers_.push_back(std::move(*loaded));
    return {buffers_.back().get(), 1, count, width, width + gap};
  }
  std::vector<float> Found(const Rows& rows) {
    std::vector<float> values(rows.values());
    const Status read = executor_->Read(rows, values);
    EXPECT_TRUE(read) << read.error().message;
    return values;
  }
  std::vector<double> Found(const Doubles& rows) {
    std::vector<double> values(size_t{rows.count} * rows.width);
    const Status read = algebra().Read(rows, values);
    EXPECT_TRUE(read) << read.error().message;
    return values;
  }
  Buffer* Allocate(uint64_t bytes) {
    auto made = executor_->Allocate(bytes);
    EXPECT_TRUE(made) << made.error().message;
    buffers_.push_back(std::move(*made));
    return buffers_.back().get();
  }

  std::unique_ptr<Executor> executor_;
  std::vector<BufferPtr> buffers_;
};

std::vector<double> RandomDoubles(size_t count, uint64_t seed) {
  const std::vector<float> values = RandomFloats(count, seed);
  return {values.begin(), values.end()};
}

// A refit wraps its executor to see what a forward pass multiplies.
TEST_F(CudaAlgebraEmulated, IsThatOfAnObservedExecutorToo) {
  struct Nobody : ProductObserver {
    bool Wants(const Matrix&) const override { return false; }
    void Multiplied(const Matrix&, std::span<const float>) override {}
  } nobody;
  const std::shared_ptr<Executor> own = std::move(executor_);
  ObservedExecutor observed(own, nobody);
  EXPECT_EQ(observed.algebra(), own->algebra());
}

TEST_F(CudaAlgebraEmulated, MultipliesRowsAndTheirTransposes) {
  constexpr uint32_t kM = 5, kN = 7, kK = 11;
  for (const bool turn_a : {false, true}) {
    for (const bool turn_b : {false, true}) {
      const std::vector<float> a = RandomFloats(kM * kK, 1), b = RandomFloats(kK * kN, 2);
      const Rows out = EmptyRows(kM, kN);
      algebra().Multiply({RowsOf(a, turn_a ? kM : kK), turn_a},
                         {RowsOf(b, turn_b ? kK : kN), turn_b}, out);
      const std::vector<float> found = Found(out);
      for (size_t i = 0; i < kM; ++i) {
        for (size_t j = 0; j < kN; ++j) {
          double sum = 0;
          for (size_t k = 0; k < kK; ++k)
            sum +=
                double{a[turn_a ? k * kM + i : i * kK + k]} * b[turn_b ? j * kK + k : k * kN + j];
          EXPECT_NEAR(found[i * kN + j], sum, 1e-5) << turn_a << turn_b << i << j;
        }
      }
    }
  }
}

TEST_F(CudaAlgebraEmulated, AddsProductsOfBlocksOfRowsToDoubles) {
  constexpr uint32_t kA = 4, kB = 6, kRows = 23;
  const std::vector<float> a = RandomFloats(kRows * kA, 1), b = RandomFloats(kRows * kB, 2);
  const Doubles sums = DoublesOf(std::vector<double>(kA * kB, 3), kB);
  algebra().AddProduct(RowsOf(a, kA), RowsOf(b, kB), 10, sums);
  const std::vector<double> found = Found(sums);
  for (size_t i = 0; i < kA; ++i) {
    for (size_t j = 0; j < kB; ++j) {
      double sum = 3;
      for (size_t row = 0; row < kRows; ++row) sum += double{a[row * kA + i]} * b[row * kB + j];
      EXPECT_NEAR(found[i * kB + j], sum, 1e-5);
    }
  }
  algebra().Clear(sums);
  EXPECT_EQ(Found(sums), std::vector<double>(kA * kB, 0));
}

TEST_F(CudaAlgebraEmulated, SolvesWhatTheHostSolves) {
  constexpr uint32_t kSize = 37, kSides = 5;
  std::vector<double> matrix = DefiniteMatrix(kSize);
  std::vector<double> upper = matrix;  // what is below the diagonal is not read
  for (size_t i = 0; i < kSize; ++i)
    std::fill_n(upper.begin() + static_cast<ptrdiff_t>(i * kSize), i,
                std::numeric_limits<double>::quiet_NaN());
  const Doubles own = DoublesOf(upper, kSize);
  algebra().AddToDiagonal(own, 0.5);
  for (size_t i = 0; i < kSize; ++i) matrix[i * kSize + i] += 0.5;
  const auto made = algebra().Factorize(own);
  ASSERT_TRUE(made) << made.error().message;
  ASSERT_TRUE(*made);
  const auto expected = Cholesky::Of(matrix, kSize, 1);
  ASSERT_TRUE(expected);

  // A right side is a row here, and a column on the host.
  const std::vector<double> sides = RandomDoubles(kSides * kSize, 4);
  std::vector<double> columns(sides.size());
  for (size_t side = 0; side < kSides; ++side) {
    for (size_t i = 0; i < kSize; ++i) columns[i * kSides + side] = sides[side * kSize + i];
  }
  const Doubles right = DoublesOf(sides, kSize);
  algebra().Solve(own, right);
  expected->Solve(columns, kSides, 1);
  const std::vector<double> found = Found(right);
  for (size_t side = 0; side < kSides; ++side) {
    for (size_t i = 0; i < kSize; ++i)
      EXPECT_NEAR(found[side * kSize + i], columns[i * kSides + side], 1e-10);
  }

  const Doubles diagonal = DoublesOf(std::vector<double>(kSize, 9), kSize);
  algebra().InvertDiagonal(own, diagonal);
  const std::vector<double> inverse = Found(diagonal), wanted = expected->InverseDiagonal(1);
  for (size_t i = 0; i < kSize; ++i) EXPECT_NEAR(inverse[i], wanted[i], 1e-12);
}

TEST_F(CudaAlgebraEmulated, AMatrixThatIsNotPositiveDefiniteHasNoFactor) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const auto has_factor = [&](const std::vector<double>& matrix) {
    const auto made = algebra().Factorize(DoublesOf(matrix, 2));
    EXPECT_TRUE(made);
    return *made;
  };
  EXPECT_FALSE(has_factor({1, 0, 0, 0}));
  EXPECT_FALSE(has_factor({1, 2, 2, 1}));
  EXPECT_FALSE(has_factor({1, nan, nan, 1}));
  EXPECT_FALSE(has_factor({nan, 0, 0, 1}));
  EXPECT_TRUE(has_factor({1, 0, 0, 1}));
}

TEST_F(CudaAlgebraEmulated, TakesColumns) {
  const std::vector<double> values = RandomDoubles(9, 5);
  const Doubles from = DoublesOf(values, 3);
  const std::vector<uint32_t> columns = {0, 2};
  const Doubles some = DoublesOf(std::vector<double>(6, 1), 2);
  algebra().TakeColumns(from, columns, false, some);
  EXPECT_EQ(Found(some), (std::vector<double>{values[0], values[2], values[3], values[5], values[6],
                                              values[8]}));
  const Doubles both = DoublesOf(std::vector<double>(4, 1), 2);
  algebra().TakeColumns(from, columns, true, both);
  EXPECT_EQ(Found(both), (std::vector<double>{values[0], values[2], values[6], values[8]}));
}

// Of fewer and of more columns than a block of threads handles, and rows than it has warps.
TEST_F(CudaAlgebraEmulated, SumsTheSquaresOfColumns) {
  for (const auto& [rows, columns] : {std::pair(0u, 3u), std::pair(3u, 5u), std::pair(19u, 70u)}) {
    SCOPED_TRACE(columns);
    const std::vector<float> floats = RandomFloats(size_t{rows} * columns, 5);
    const std::vector<double> doubles = RandomDoubles(size_t{rows} * columns, 6);
    const Doubles of_floats = DoublesOf(std::vector<double>(columns, 1), columns);
    const Doubles of_doubles = DoublesOf(std::vector<double>(columns, 1), columns);
    algebra().SumSquares(RowsOf(floats, columns), of_floats);
    algebra().SumSquares(DoublesOf(doubles, columns), of_doubles);
    std::vector<double> first(columns), second(columns);
    for (size_t i = 0; i < floats.size(); ++i) {
      first[i % columns] += double{floats[i]} * floats[i];
      second[i % columns] += doubles[i] * doubles[i];
    }
    const std::vector<double> a = Found(of_floats), b = Found(of_doubles);
    for (size_t i = 0; i < columns; ++i) {
      EXPECT_NEAR(a[i], first[i], 1e-12 * first[i]) << i;
      EXPECT_NEAR(b[i], second[i], 1e-12 * second[i]) << i;
    }
  }
}

TEST_F(CudaAlgebraEmulated, PullsAndChangesWeights) {
  const Rows now = RowsOf({1, 2, 3, 4}, 2), before = RowsOf({2, 2, 1, 0}, 2);
  const Doubles right = DoublesOf({9, 9, 9, 9}, 2);
  algebra().SetDifference(before, now, 0.5, right);
  EXPECT_EQ(Found(right), (std::vector<double>{0.5, 0, -1, -2}));
  const Rows moved = EmptyRows(2, 2);
  algebra().Change(right, now, moved);
  EXPECT_EQ(Found(now), (std::vector<float>{1.5, 2, 2, 2}));
  EXPECT_EQ(Found(moved), (std::vector<float>{0.5, 0, -1, -2}));
}

TEST_F(CudaAlgebraEmulated, HasTheSlopesOfTheHost) {
  std::vector<float> gate = RandomFloats(60, 1, 6), up = RandomFloats(60, 2, 6);
  gate.insert(gate.end(), {0, 7, 7.5, -9, 8, 2});
  up.insert(up.end(), {0, -8, 3, 8, 7, -2});
  for (const Activation& activation :
       {Activation(Activation::kSilu), Activation(Activation::kGelu),
        Activation(Activation::kClampedSilu), Activation(Activation::kSigmoid),
        Activation(Activation::kSquaredRelu), Activation(Activation::kLimitedSilu, 3),
        Activation(Activation::kRelu), Activation(Activation::kSiluOfLimited, 3),
        Activation(Activation::kSitu, 4), Activation(Activation::kSitu, 4, 2)}) {
    SCOPED_TRACE(int{activation.kind});
    std::vector<float> first = gate, second = up, out(gate.size());
    const Rows own = RowsOf(gate, 6), other = RowsOf(up, 6), to = EmptyRows(11, 6);
    const bool alone = activation.kind == Activation::kSquaredRelu;
    if (alone) second.clear();
    ActivateWithSlopes(activation, first, second, out);
    algebra().ActivateWithSlopes(activation, own, alone ? Rows() : other, to);
    const std::vector<float> a = Found(own), b = Found(other), c = Found(to);
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(c[i], out[i], 1e-5 * (1 + std::abs(out[i]))) << i;
      EXPECT_NEAR(a[i], first[i], 1e-5 * (1 + std::abs(first[i]))) << i;
      if (alone) continue;
      EXPECT_NEAR(b[i], second[i], 1e-5 * (1 + std::abs(second[i]))) << i;
    }
  }
}

TEST_F(CudaAlgebraEmulated, MultipliesValuesAndRows) {
  const std::vector<float> x = RandomFloats(2 * 300, 1), y = RandomFloats(2 * 300, 2);
  const Rows left = RowsOf(x, 300), right = RowsOf(y, 300), dots = EmptyRows(2, 1);
  algebra().Dots(left, right, dots);
  algebra().MultiplyValues(left, right);
  const std::vector<float> found = Found(dots), products = Found(left);
  for (size_t row = 0; row < 2; ++row) {
    double sum = 0;
    for (size_t i = row * 300; i < (row + 1) * 300; ++i) {
      sum += double{x[i]} * y[i];
      EXPECT_EQ(products[i], x[i] * y[i]);
    }
    EXPECT_NEAR(found[row], sum, 1e-4);
  }
}

TEST_F(CudaAlgebraEmulated, DescendsAsTheHostDoes) {
  std::vector<float> slopes = RandomFloats(12, 1), values = RandomFloats(12, 2);
  slopes[3] = std::numeric_limits<float>::quiet_NaN();
  slopes[4] = std::numeric_limits<float>::infinity();
  slopes[5] = -1e30f;
  Adam adam(values.size());
  const AdamRows rows = {RowsOf(slopes, 4), RowsOf(std::vector<float>(12, 0), 4),
                         RowsOf(std::vector<float>(12, 0), 4), RowsOf(values, 4)};
  for (uint32_t n = 1; n <= 3; ++n) {
    adam.Step(0.1 / n, slopes, values);
    algebra().Descend(NthStep(0.1 / n, n), rows);
  }
  const std::vector<float> found = Found(rows.values);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(found[i], values[i], 1e-6) << i;
}

TEST_F(CudaAlgebraEmulated, WhatKeepsItsLibrariesFromStartingIsKnownAndTheExecutorGoesOn) {
  EXPECT_FALSE(executor_->WithoutAlgebra());
  using emulation::Libraries;
  const int handles = emulation::HandlesInUse();
  for (const auto& [libraries, message] :
       {std::pair(Libraries::kMissing, "cuda: no such library"),
        std::pair(Libraries::kWithoutBlas, "cuda: start: cuBLAS status 1"),
        std::pair(Libraries::kWithoutSolver, "cuda: start: cuSOLVER status 1")}) {
    SCOPED_TRACE(message);
    emulation::TheMachine().libraries = libraries;
    auto opened = OpenCuda({});
    ASSERT_TRUE(opened);
    EXPECT_EQ((*opened)->algebra(), nullptr);
    // One answer for as long as the executor lives: bits depend on it.
    emulation::TheMachine().libraries = Libraries::kThere;
    EXPECT_EQ((*opened)->algebra(), nullptr);
    EXPECT_EQ(emulation::HandlesInUse(), handles);
    const std::optional<Error> missing = (*opened)->WithoutAlgebra();
    ASSERT_TRUE(missing);
    EXPECT_EQ(missing->code, Code::kUnavailable);
    EXPECT_EQ(missing->message, message);
    EXPECT_TRUE((*opened)->Finish());
    EXPECT_TRUE((*opened)->Allocate(100));
  }
}

// The device is what is wrong then.
TEST_F(CudaAlgebraEmulated, ALostDeviceIsAnErrorAlsoIfLibrariesDoNotStart) {
  auto opened = OpenCuda({});
  ASSERT_TRUE(opened);
  const auto buffer = (*opened)->Allocate(100);
  ASSERT_TRUE(buffer);
  emulation::TheMachine().lost = true;
  emulation::TheMachine().libraries = emulation::Libraries::kWithoutBlas;
  EXPECT_EQ((*opened)->algebra(), nullptr);
  const Status done = (*opened)->Finish();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "cuda: device: an illegal memory access was encountered");
}

TEST_F(CudaAlgebraEmulated, TooLittleMemoryForAFactorIsAnErrorThatNamesTheBytes) {
  const Doubles own = DoublesOf(DefiniteMatrix(50), 50);
  emulation::TheMachine().memory = emulation::BytesInUse() + 100;
  const auto made = algebra().Factorize(own);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kUnavailable);
  EXPECT_NE(made.error().message.find("bytes of memory, found 100 of "), std::string::npos)
      << made.error().message;
  EXPECT_FALSE(executor_->Finish());
}

// A product that would read or write beside its rows.
TEST_F(CudaAlgebraEmulated, TheEmulationRefusesRowsBeyondTheirMemory) {
  Rows short_rows = RowsOf(std::vector<float>(6, 1), 3, 0);
  short_rows.count = 200;
  algebra().Multiply(Straight(short_rows), Turned(short_rows), EmptyRows(200, 200));
  const Status done = executor_->Finish();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "cuda: product: cuBLAS status 7");
}

// A library that fails on a lost device hides why.
TEST_F(CudaAlgebraEmulated, TheErrorOfTheDeviceComesBeforeThatOfALibrary) {
  Rows short_rows = RowsOf(std::vector<float>(6, 1), 3, 0);
  const Rows out = EmptyRows(200, 200);
  short_rows.count = 200;
  emulation::TheMachine().lost = true;
  algebra().Multiply(Straight(short_rows), Turned(short_rows), out);
  const Status done = executor_->Finish();
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "cuda: product: an illegal memory access was encountered");
}

TEST_F(CudaAlgebraEmulated, TheEmulationRefusesGridsThatNoDeviceTakes) {
  for (const dim3 grid : {dim3{0, 1, 1}, dim3{1, 0, 1}, dim3{1, 1, 0}, dim3{1, 65'536, 1},
                          dim3{1, 1, 65'536}, dim3{0x8000'0000, 1, 1}}) {
    emulation::Run(grid, 1, nullptr, [] { FAIL(); });
    EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  }
  EXPECT_TRUE(emulation::TakesGrid({0x7fff'ffff, 65'535, 65'535}));
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

// Arguments that our code never gives, so that the emulation is known to refuse them.
TEST_F(CudaAlgebraEmulated, TheEmulationRefusesWrongArguments) {
  cublasHandle_t blas = nullptr;
  cusolverDnHandle_t solver = nullptr;
  ASSERT_EQ(cublasCreate(&blas), CUBLAS_STATUS_SUCCESS);
  ASSERT_EQ(cusolverDnCreate(&solver), CUSOLVER_STATUS_SUCCESS);
  void *device = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 1024), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(&pinned, 1024), cudaSuccess);
  auto* const floats = static_cast<float*>(device);
  auto* const doubles = static_cast<double*>(device);
  auto* const host = static_cast<float*>(pinned);
  auto* const info = reinterpret_cast<int*>(floats + 200);
  cudaStream_t stream = nullptr;
  const float one = 1, none = 0;
  const double whole = 1;
  const auto product = [&](const float* a, int lead, int columns) {
    return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 4, columns, 4, &one, a, lead, floats, 4,
                       &none, floats + 100, 4);
  };
  EXPECT_EQ(product(floats, 4, 4), CUBLAS_STATUS_NOT_INITIALIZED);  // no stream
  ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  cublasSetStream(blas, stream);
  cusolverDnSetStream(solver, stream);
  EXPECT_EQ(product(floats, 4, 4), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(product(floats, 3, 4), CUBLAS_STATUS_INVALID_VALUE);    // rows overlap
  EXPECT_EQ(product(host, 4, 4), CUBLAS_STATUS_INVALID_VALUE);      // host memory
  EXPECT_EQ(product(floats, 4, 400), CUBLAS_STATUS_INVALID_VALUE);  // beyond the memory
  EXPECT_EQ(cublasDtrsm(blas, CUBLAS_SIDE_RIGHT, CUBLAS_FILL_MODE_LOWER, CUBLAS_OP_T,
                        CUBLAS_DIAG_NON_UNIT, 2, 2, &whole, doubles, 2, doubles + 8, 2),
            CUBLAS_STATUS_INVALID_VALUE);
  int room = 0;
  EXPECT_EQ(cusolverDnDpotrf_bufferSize(solver, CUBLAS_FILL_MODE_LOWER, 3, doubles, 2, &room),
            CUSOLVER_STATUS_INVALID_VALUE);
  ASSERT_EQ(cusolverDnDpotrf_bufferSize(solver, CUBLAS_FILL_MODE_LOWER, 3, doubles, 3, &room),
            CUSOLVER_STATUS_SUCCESS);
  EXPECT_EQ(
      cusolverDnDpotrf(solver, CUBLAS_FILL_MODE_LOWER, 3, doubles, 3, doubles + 20, room - 1, info),
      CUSOLVER_STATUS_INVALID_VALUE);
  EXPECT_EQ(
      cusolverDnDpotrf(solver, CUBLAS_FILL_MODE_LOWER, 3, doubles, 3, doubles + 20, room, &room),
      CUSOLVER_STATUS_INVALID_VALUE);  // `info` on the host
  EXPECT_EQ(
      cusolverDnDpotrs(solver, CUBLAS_FILL_MODE_LOWER, 3, 2, doubles, 3, doubles + 20, 2, info),
      CUSOLVER_STATUS_INVALID_VALUE);
  cudaStreamDestroy(stream);
  cudaFree(device);
  cudaFreeHost(pinned);
  cublasDestroy(blas);
  cusolverDnDestroy(solver);
}

}  // namespace
}  // namespace moepack::runtime
