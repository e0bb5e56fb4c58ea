#include "runtime-shim/cuda/algebra_kernels.h"
#include "runtime-shim/cuda/each_value.h"
#include "runtime-shim/cuda/launch.h"

namespace moepack::runtime::cuda {
namespace {

struct AddToSumsWork {
  Floats values;
  DoubleValues sums;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(sums, row, column) += At(values, row, column);
  }
};

struct ClearWork {
  DoubleValues values;
  __device__ void operator()(uint32_t row, uint32_t column) const { At(values, row, column) = 0; }
};

struct AddToDiagonalWork {
  DoubleValues matrix;
  double value;
  __device__ void operator()(uint32_t, uint32_t i) const { At(matrix, i, i) += value; }
};

struct CopyColumnWork {
  DoubleValues column, row;
  __device__ void operator()(uint32_t, uint32_t i) const { At(row, 0, i) = At(column, i, 0); }
};

struct SetIdentityWork {
  DoubleValues matrix;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(matrix, row, column) = row == column ? 1 : 0;
  }
};

// A block of threads handles as many columns as a warp has lanes, so that these read values side by
// side; its warps share the rows.
template <class Values>
__global__ void __launch_bounds__(kThreads) SquaresOfColumns(Values values, DoubleValues squares) {
  __shared__ double sums[kThreads];
  const uint32_t column = blockIdx.x * kLanes + threadIdx.x % kLanes;
  double sum = 0;
  for (uint32_t row = threadIdx.x / kLanes; column < values.width && row < values.count;
       row += kWarps) {
    const double value = At(values, row, column);
    sum += value * value;
  }
  sums[threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.x >= kLanes || column >= values.width) return;
  for (uint32_t i = threadIdx.x + kLanes; i < kThreads; i += kLanes) sum += sums[i];
  At(squares, 0, column) = sum;
}

template <class Values>
void LaunchSquares(const Values& values, const DoubleValues& squares, cudaStream_t stream) {
  if (values.width == 0) return;
  Launch(SquaresOfColumns<Values>, {Blocks1d(values.width, kLanes)}, stream, values, squares);
}

struct TakeColumnsWork {
  DoubleValues from;
  const uint32_t* columns;
  bool symmetric;
  DoubleValues to;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(to, row, column) = At(from, symmetric ? columns[row] : row, columns[column]);
  }
};

struct SetDifferenceWork {
  Floats a, b;
  double factor;
  DoubleValues right;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    const double first = At(a, row, column), second = At(b, row, column);
    At(right, row, column) = factor * (first - second);
  }
};

struct ChangeWork {
  DoubleValues change;
  Floats values, moved;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    const double by = At(change, row, column);
    At(values, row, column) = static_cast<float>(At(values, row, column) + by);
    At(moved, row, column) = static_cast<float>(by);
  }
};

struct SlopesWork {
  Activation activation;
  Floats gate, up, out;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    float* const other = up.data != nullptr ? &At(up, row, column) : nullptr;
    At(out, row, column) = ActivateSloped(activation, At(gate, row, column), other);
  }
};

struct MultiplyValuesWork {
  Floats x, y;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(x, row, column) *= At(y, row, column);
  }
};

// A block of threads handles one row.
__global__ void __launch_bounds__(kThreads) DotsOfRows(Floats a, Floats b, Floats out) {
  __shared__ float slots[kWarps];
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < a.width; i += kThreads)
    sum += At(a, blockIdx.x, i) * At(b, blockIdx.x, i);
  const float dot = OverWarps<SumOfWarps>(WarpSum(sum), slots);
  if (threadIdx.x == 0) At(out, blockIdx.x, 0) = dot;
}

struct DescendWork {
  AdamStep step;
  AdamFloats rows;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    MoveValue(step, At(rows.slopes, row, column), At(rows.firsts, row, column),
              At(rows.seconds, row, column), At(rows.values, row, column));
  }
};

}  // namespace

void AddToSums(const Floats& values, const DoubleValues& sums, cudaStream_t stream) {
  Run(AddToSumsWork{values, sums}, sums.count, sums.width, stream);
}

void Clear(const DoubleValues& values, cudaStream_t stream) {
  Run(ClearWork{values}, values.count, values.width, stream);
}

void AddToDiagonal(const DoubleValues& matrix, double value, cudaStream_t stream) {
  Run(AddToDiagonalWork{matrix, value}, 1, matrix.count, stream);
}

void CopyColumn(const DoubleValues& column, const DoubleValues& row, cudaStream_t stream) {
  Run(CopyColumnWork{column, row}, 1, column.count, stream);
}

void SetIdentity(const DoubleValues& matrix, cudaStream_t stream) {
  Run(SetIdentityWork{matrix}, matrix.count, matrix.width, stream);
}

void SumSquares(const Floats& values, const DoubleValues& squares, cudaStream_t stream) {
  LaunchSquares(values, squares, stream);
}

void SumSquares(const DoubleValues& values, const DoubleValues& squares, cudaStream_t stream) {
  LaunchSquares(values, squares, stream);
}

void TakeColumns(const DoubleValues& from, const uint32_t* columns, bool symmetric,
                 const DoubleValues& to, cudaStream_t stream) {
  Run(TakeColumnsWork{from, columns, symmetric, to}, to.count, to.width, stream);
}

void SetDifference(const Floats& a, const Floats& b, double factor, const DoubleValues& right,
                   cudaStream_t stream) {
  Run(SetDifferenceWork{a, b, factor, right}, right.count, right.width, stream);
}

void Change(const DoubleValues& change, const Floats& values, const Floats& moved,
            cudaStream_t stream) {
  Run(ChangeWork{change, values, moved}, change.count, change.width, stream);
}

void ActivateWithSlopes(Activation activation, const Floats& gate, const Floats& up,
                        const Floats& out, cudaStream_t stream) {
  Run(SlopesWork{activation, gate, up, out}, gate.count, gate.width, stream);
}

void MultiplyValues(const Floats& x, const Floats& y, cudaStream_t stream) {
  Run(MultiplyValuesWork{x, y}, x.count, x.width, stream);
}

void Dots(const Floats& a, const Floats& b, const Floats& out, cudaStream_t stream) {
  if (a.count == 0) return;
  Launch(DotsOfRows, {a.count}, stream, a, b, out);
}

void Descend(const AdamStep& step, const AdamFloats& rows, cudaStream_t stream) {
  Run(DescendWork{step, rows}, rows.values.count, rows.values.width, stream);
}

}  // namespace moepack::runtime::cuda
