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

// A function of one value, and its derivative there.
struct SlopedValue {
  float value, slope;
};

__device__ inline SlopedValue SigmoidSloped(float x) {
  const float value = Sigmoid(x);
  return {value, value * (1 - value)};
}

// x * sigmoid(factor * x)
__device__ inline SlopedValue SiluSloped(float x, float factor) {
  const SlopedValue gate = SigmoidSloped(factor * x);
  return {x * gate.value, gate.value + factor * x * gate.slope};
}

__device__ inline SlopedValue GeluSloped(float x) {
  const float root = 0.797884560802865f, cubic = 0.044715f;
  const float t = tanhf(root * (x + cubic * x * x * x));
  const float by_x = root * (1 + 3 * cubic * x * x) * (1 - t * t);
  return {0.5f * x * (1 + t), 0.5f * (1 + t) + 0.5f * x * by_x};
}

__device__ inline SlopedValue ClampSloped(float x, float limit) {
  const float near = x > limit ? limit : x < -limit ? -limit : x;
  return {near, x > limit || x < -limit ? 0.0f : 1.0f};
}

__device__ inline SlopedValue BoundedSloped(float x, float bound) {
  const float t = tanhf(x / bound);
  return {bound * t, 1 - t * t};
}

__device__ inline SlopedValue GateSloped(const Activation& activation, float x) {
  const float limit = activation.limit;
  switch (activation.kind) {
    case Activation::kSilu:
      return SiluSloped(x, 1);
    case Activation::kGelu:
      return GeluSloped(x);
    case Activation::kClampedSilu: {
      const SlopedValue at = SiluSloped(x > 7 ? 7 : x, 1.702f);
      return {at.value, x > 7 ? 0 : at.slope};
    }
    case Activation::kSigmoid:
      return SigmoidSloped(x);
    case Activation::kLimitedSilu: {
      const SlopedValue silu = SiluSloped(x, 1);
      return silu.value > limit ? SlopedValue{limit, 0} : silu;
    }
    case Activation::kSiluOfLimited: {
      const SlopedValue at = SiluSloped(x > limit ? limit : x, 1);
      return {at.value, x > limit ? 0 : at.slope};
    }
    case Activation::kSitu: {
      const SlopedValue bounded = BoundedSloped(x, limit), share = SigmoidSloped(x);
      return {bounded.value * share.value,
              bounded.slope * share.value + bounded.value * share.slope};
    }
    case Activation::kRelu:
      return {x < 0 ? 0 : x, x > 0 ? 1.0f : 0.0f};
    case Activation::kSquaredRelu:
      break;
  }
  const float positive = x < 0 ? 0 : x;
  return {positive * positive, 2 * positive};
}

__device__ inline SlopedValue UpSloped(const Activation& activation, float x) {
  switch (activation.kind) {
    case Activation::kClampedSilu: {
      const SlopedValue near = ClampSloped(x, 7);
      return {near.value + 1, near.slope};
    }
    case Activation::kLimitedSilu:
    case Activation::kSiluOfLimited:
      return ClampSloped(x, activation.limit);
    case Activation::kSitu:
      if (activation.up_limit > 0) return BoundedSloped(x, activation.up_limit);
      break;
    case Activation::kSquaredRelu:
      return {1, 0};  // nothing depends on it
    default:
      break;
  }
  return {x, 1};
}

struct SlopesWork {
  Activation activation;
  Floats gate, up, out;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    const bool gated = up.data != nullptr;
    const SlopedValue left = GateSloped(activation, At(gate, row, column));
    const SlopedValue right = gated ? UpSloped(activation, At(up, row, column)) : SlopedValue{1, 0};
    At(out, row, column) = left.value * right.value;
    At(gate, row, column) = left.slope * right.value;
    if (gated) At(up, row, column) = left.value * right.slope;
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

// Comparisons with NaN are false.
struct DescendWork {
  AdamStep step;
  DescentRows rows;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    const float given = At(rows.slopes, row, column);
    const float slope = given > step.most    ? step.most
                        : given < -step.most ? -step.most
                        : given == given     ? given
                                             : 0.0f;
    float& first = At(rows.firsts, row, column);
    float& second = At(rows.seconds, row, column);
    first = step.keep_first * first + (1 - step.keep_first) * slope;
    second = step.keep_second * second + (1 - step.keep_second) * slope * slope;
    At(rows.values, row, column) -=
        step.rate * first / (sqrtf(second * step.of_second) + step.floor);
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

void Descend(const AdamStep& step, const DescentRows& rows, cudaStream_t stream) {
  Run(DescendWork{step, rows}, rows.values.count, rows.values.width, stream);
}

}  // namespace moepack::runtime::cuda
