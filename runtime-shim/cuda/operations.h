// Operations without weights in blocks, declared apart from their kernels, for the host compiler.
// Formulas: executor.h. `rows` and `factors` in host memory are passed as RowList, kListed at a
// time.
#pragma once

#include <cuda_runtime.h>

#include "runtime-shim/cuda/products.h"
#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime::cuda {

// Vectors may be null.
struct Norm {
  const float *weight, *bias;
  float eps;
};
void RmsNorm(const Floats& x, const Norm& norm, const Floats& y, cudaStream_t stream);

void MeasureRows(const Floats& x, const Floats& sizes, cudaStream_t stream);
void Transpose(const Floats& x, const Floats& y, cudaStream_t stream);
void Copy(const Floats& from, const Floats& to, cudaStream_t stream);
void AddBias(const Floats& x, const float* bias, cudaStream_t stream);
void Add(const Floats& x, const Floats& y, float scale, cudaStream_t stream);
void Scale(const Floats& x, float factor, cudaStream_t stream);
void ScaleRows(const Floats& x, const RowList& list, cudaStream_t stream);  // by list.factors
void ScaleBySigmoid(const Floats& x, const Floats& gate, cudaStream_t stream);
void Activate(Activation activation, const Floats& gate, const Floats& up, cudaStream_t stream);
void Rotate(const Floats& x, const Rotation& rotation, const Floats& turns, cudaStream_t stream);
void Gather(const Floats& x, const RowList& list, const Floats& y, cudaStream_t stream);
void ScatterAdd(const Floats& x, const RowList& list, const Floats& y, cudaStream_t stream);

struct AttentionRows {
  Floats queries, keys, values, out;
  const float* sinks;  // or null
};
void Attend(const AttentionShape& shape, const AttentionRows& rows, cudaStream_t stream);

}  // namespace moepack::runtime::cuda
