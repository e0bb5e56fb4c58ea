#include "runtime-shim/cuda/device.h"
#include "runtime-shim/cuda/each_value.h"
#include "runtime-shim/cuda/launch.h"
#include "runtime-shim/cuda/operations.h"

namespace moepack::runtime::cuda {
namespace {

struct CopyWork {
  Floats from, to;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(to, row, column) = At(from, row, column);
  }
};

// `row` and `column` are those of y, so that neighbouring threads write neighbouring values.
struct TransposeWork {
  Floats x, y;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(y, row, column) = At(x, column, row);
  }
};

struct AddBiasWork {
  Floats x;
  const float* bias;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(x, row, column) += bias[column];
  }
};

struct AddWork {
  Floats x, y;
  float scale;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(x, row, column) += scale * At(y, row, column);
  }
};

struct ScaleWork {
  Floats x;
  float factor;
  __device__ void operator()(uint32_t row, uint32_t column) const { At(x, row, column) *= factor; }
};

struct ScaleRowsWork {
  Floats x;
  RowList list;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(x, row, column) *= list.factors[row];
  }
};

struct SigmoidWork {
  Floats x, gate;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(x, row, column) *= Sigmoid(At(gate, row, 0));
  }
};

__device__ float Bounded(float x, float bound) { return bound * tanhf(x / bound); }

// Comparisons are written so that NaN stays.
struct ActivateWork {
  Activation activation;
  Floats gate, up;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    float& out = At(gate, row, column);
    const float g = out, u = At(up, row, column), limit = activation.limit;
    const Activation::Kind kind = activation.kind;
    if (kind == Activation::kSilu) {
      out = g * Sigmoid(g) * u;
    } else if (kind == Activation::kGelu) {
      // (1 + tanh(z)) / 2 is sigmoid(2 z), which keeps its precision far below 0.
      const float twice = 1.595769121605731f * (g + 0.044715f * g * g * g);
      out = g * Sigmoid(twice) * u;
    } else if (kind == Activation::kSigmoid) {
      out = Sigmoid(g) * u;
    } else if (kind == Activation::kSquaredRelu) {
      out = g < 0 ? 0 : g * g;
    } else if (kind == Activation::kLimitedSilu) {
      const float silu = g * Sigmoid(g);
      const float near = u > limit ? limit : u < -limit ? -limit : u;
      out = (silu > limit ? limit : silu) * near;
    } else if (kind == Activation::kRelu) {
      out = (g < 0 ? 0 : g) * u;
    } else if (kind == Activation::kSiluOfLimited) {
      const float low = g > limit ? limit : g;
      const float near = u > limit ? limit : u < -limit ? -limit : u;
      out = low * Sigmoid(low) * near;
    } else if (kind == Activation::kSitu) {
      const float own = activation.up_limit > 0 ? Bounded(u, activation.up_limit) : u;
      out = Bounded(g, limit) * Sigmoid(g) * own;
    } else {
      constexpr float kLimit = 7, kSteepness = 1.702f;
      const float low = g > kLimit ? kLimit : g;
      const float near = u > kLimit ? kLimit : u < -kLimit ? -kLimit : u;
      out = low * Sigmoid(kSteepness * low) * (near + 1);
    }
  }
};

// `column` numbers the pairs of all heads.
struct RotateWork {
  Floats x;
  Rotation rotation;
  Floats turns;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    const uint32_t half = rotation.dims / 2;
    const uint32_t head = column / half, pair = column % half;
    const bool halves = rotation.pairing == Pairing::kHalves;
    const uint32_t first = head * rotation.head_width + rotation.first;
    float& a = At(x, row, first + (halves ? pair : 2 * pair));
    float& b = At(x, row, first + (halves ? pair + half : 2 * pair + 1));
    const float cosine = At(turns, row, pair), sine = At(turns, row, half + pair);
    const float a_before = a, b_before = b;
    a = a_before * cosine - b_before * sine;
    b = a_before * sine + b_before * cosine;
  }
};

struct GatherWork {
  Floats x, y;
  RowList list;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(y, row, column) = At(x, list.rows[row], column) * list.factors[row];
  }
};

// No two threads handle the same value: the rows are distinct.
struct ScatterAddWork {
  Floats x, y;
  RowList list;
  __device__ void operator()(uint32_t row, uint32_t column) const {
    At(x, list.rows[row], column) += list.factors[row] * At(y, row, column);
  }
};

// A block of threads handles one row.
__global__ void __launch_bounds__(kThreads) NormRows(Floats x, Norm norm, Floats y) {
  __shared__ float slots[kWarps];
  const float* const from = x.data + blockIdx.x * x.stride;
  float* const to = y.data + blockIdx.x * y.stride;
  float sum = 0;
  for (uint32_t i = threadIdx.x; i < x.width; i += kThreads) sum += from[i] * from[i];
  const float squares = OverWarps<SumOfWarps>(WarpSum(sum), slots);
  const float factor = 1 / sqrtf(squares / static_cast<float>(x.width) + norm.eps);
  for (uint32_t i = threadIdx.x; i < x.width; i += kThreads) {
    float value = from[i] * factor;
    if (norm.weight != nullptr) value *= norm.weight[i];
    if (norm.bias != nullptr) value += norm.bias[i];
    to[i] = value;
  }
}

__global__ void __launch_bounds__(kThreads) SizesOfRows(Floats x, Floats sizes) {
  __shared__ float slots[kWarps];
  const float* const from = x.data + blockIdx.x * x.stride;
  float sum = 0, peak = 0;
  for (uint32_t i = threadIdx.x; i < x.width; i += kThreads) {
    sum += from[i] * from[i];
    peak = fmaxf(peak, fabsf(from[i]));
  }
  const float squares = OverWarps<SumOfWarps>(WarpSum(sum), slots);
  const float largest = OverWarps<MaxOfWarps>(WarpMax(peak), slots);
  if (threadIdx.x != 0) return;
  At(sizes, blockIdx.x, 0) = sqrtf(squares);
  At(sizes, blockIdx.x, 1) = largest;
}

}  // namespace

void MeasureRows(const Floats& x, const Floats& sizes, cudaStream_t stream) {
  if (x.count == 0) return;
  Launch(SizesOfRows, {x.count}, stream, x, sizes);
}

void Transpose(const Floats& x, const Floats& y, cudaStream_t stream) {
  Run(TransposeWork{x, y}, y.count, y.width, stream);
}

void RmsNorm(const Floats& x, const Norm& norm, const Floats& y, cudaStream_t stream) {
  if (x.count == 0 || x.width == 0) return;
  Launch(NormRows, {x.count}, stream, x, norm, y);
}

void Copy(const Floats& from, const Floats& to, cudaStream_t stream) {
  Run(CopyWork{from, to}, from.count, from.width, stream);
}

void AddBias(const Floats& x, const float* bias, cudaStream_t stream) {
  Run(AddBiasWork{x, bias}, x.count, x.width, stream);
}

void Add(const Floats& x, const Floats& y, float scale, cudaStream_t stream) {
  Run(AddWork{x, y, scale}, x.count, x.width, stream);
}

void Scale(const Floats& x, float factor, cudaStream_t stream) {
  Run(ScaleWork{x, factor}, x.count, x.width, stream);
}

void ScaleRows(const Floats& x, const RowList& list, cudaStream_t stream) {
  Run(ScaleRowsWork{x, list}, list.count, x.width, stream);
}

void ScaleBySigmoid(const Floats& x, const Floats& gate, cudaStream_t stream) {
  Run(SigmoidWork{x, gate}, x.count, x.width, stream);
}

void Activate(Activation activation, const Floats& gate, const Floats& up, cudaStream_t stream) {
  Run(ActivateWork{activation, gate, up}, gate.count, gate.width, stream);
}

void Rotate(const Floats& x, const Rotation& rotation, const Floats& turns, cudaStream_t stream) {
  Run(RotateWork{x, rotation, turns}, x.count, rotation.heads * (rotation.dims / 2), stream);
}

void Gather(const Floats& x, const RowList& list, const Floats& y, cudaStream_t stream) {
  Run(GatherWork{x, y, list}, list.count, y.width, stream);
}

void ScatterAdd(const Floats& x, const RowList& list, const Floats& y, cudaStream_t stream) {
  Run(ScatterAddWork{x, y, list}, list.count, y.width, stream);
}

}  // namespace moepack::runtime::cuda
