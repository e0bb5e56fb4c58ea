// The operations of DenseAlgebra that cuBLAS and cuSOLVER do not have, declared apart from their
// kernels, for the host compiler. Formulas: executor/dense_algebra.h.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "runtime-shim/cuda/products.h"
#include "runtime-shim/executor/gradient_formulas.h"
#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime::cuda {

void AddToSums(const Floats& values, const DoubleValues& sums, cudaStream_t stream);
void Clear(const DoubleValues& values, cudaStream_t stream);
void AddToDiagonal(const DoubleValues& matrix, double value, cudaStream_t stream);
// To a row.
void CopyColumn(const DoubleValues& column, const DoubleValues& row, cudaStream_t stream);
void SetIdentity(const DoubleValues& matrix, cudaStream_t stream);
void SumSquares(const Floats& values, const DoubleValues& squares, cudaStream_t stream);
void SumSquares(const DoubleValues& values, const DoubleValues& squares, cudaStream_t stream);
// `columns` are on the device, to.width of them.
void TakeColumns(const DoubleValues& from, const uint32_t* columns, bool symmetric,
                 const DoubleValues& to, cudaStream_t stream);
void SetDifference(const Floats& a, const Floats& b, double factor, const DoubleValues& right,
                   cudaStream_t stream);
void Change(const DoubleValues& change, const Floats& values, const Floats& moved,
            cudaStream_t stream);

// up.data may be null.
void ActivateWithSlopes(Activation activation, const Floats& gate, const Floats& up,
                        const Floats& out, cudaStream_t stream);
void MultiplyValues(const Floats& x, const Floats& y, cudaStream_t stream);
void Dots(const Floats& a, const Floats& b, const Floats& out, cudaStream_t stream);
struct AdamFloats {
  Floats slopes, firsts, seconds, values;
};
void Descend(const AdamStep& step, const AdamFloats& rows, cudaStream_t stream);

}  // namespace moepack::runtime::cuda
