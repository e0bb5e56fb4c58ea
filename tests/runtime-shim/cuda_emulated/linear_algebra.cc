// cuBLAS and cuSOLVER of the emulated device, with plain loops.
#include <cublas_v2.h>
#include <cusolverDn.h>

#include <cmath>
#include <vector>

struct cublasContext {
  cudaStream_t stream = nullptr;
};
struct cusolverDnContext {
  cudaStream_t stream = nullptr;
};

namespace {

using emulation::Enqueue;

// A matrix of `rows` rows, whose columns start `lead` values apart.
template <class Value>
bool IsMatrix(const Value* data, int rows, int columns, int lead) {
  if (rows < 0 || columns < 0 || lead < 1 || lead < rows) return false;
  if (rows == 0 || columns == 0) return true;
  const auto last = static_cast<size_t>(columns - 1) * static_cast<size_t>(lead);
  return emulation::IsOnDevice(data, (last + static_cast<size_t>(rows)) * sizeof(Value));
}

size_t At(int row, int column, int lead) {
  return static_cast<size_t>(column) * static_cast<size_t>(lead) + static_cast<size_t>(row);
}

// Solves L x = b, or L' x = b, for the lower triangle of `a`.
void SolveTriangle(const double* a, int lda, int n, bool turned, double* x) {
  for (int step = 0; step < n; ++step) {
    const int i = turned ? n - 1 - step : step;
    double value = x[i];
    for (int k = turned ? i + 1 : 0; k < (turned ? n : i); ++k)
      value -= a[turned ? At(k, i, lda) : At(i, k, lda)] * x[k];
    x[i] = value / a[At(i, i, lda)];
  }
}

// The first pivot that is not positive, counted from 1; 0 if all are. NaN passes, as it may in the
// library.
int FactorLower(double* a, int lda, int n) {
  for (int j = 0; j < n; ++j) {
    for (int i = j; i < n; ++i) {
      double value = a[At(i, j, lda)];
      for (int k = 0; k < j; ++k) value -= a[At(i, k, lda)] * a[At(j, k, lda)];
      if (i == j && value <= 0) return j + 1;
      a[At(i, j, lda)] = i == j ? std::sqrt(value) : value / a[At(j, j, lda)];
    }
  }
  return 0;
}

// What a factorization needs: about as much as the library asks for.
int RoomFor(int n) { return n + 7; }

}  // namespace

int& emulation::HandlesInUse() {
  static int count = 0;
  return count;
}

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (emulation::TheMachine().libraries == emulation::Libraries::kWithoutBlas)
    return CUBLAS_STATUS_NOT_INITIALIZED;
  *handle = new cublasContext;
  ++emulation::HandlesInUse();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  delete handle;
  --emulation::HandlesInUse();
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasSetMathMode(cublasHandle_t, cublasMath_t) { return CUBLAS_STATUS_SUCCESS; }

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
                           int m, int n, int k, const float* alpha, const float* a, int lda,
                           const float* b, int ldb, const float* beta, float* c, int ldc) {
  // Work in another stream would not wait for ours.
  if (handle == nullptr || handle->stream == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  const bool turn_a = op_a == CUBLAS_OP_T, turn_b = op_b == CUBLAS_OP_T;
  if (!IsMatrix(a, turn_a ? k : m, turn_a ? m : k, lda) ||
      !IsMatrix(b, turn_b ? n : k, turn_b ? k : n, ldb) || !IsMatrix(c, m, n, ldc))
    return CUBLAS_STATUS_INVALID_VALUE;
  Enqueue([=, times = *alpha, keep = *beta] {
    std::vector<float> sums(static_cast<size_t>(m));
    for (int column = 0; column < n; ++column) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int i = 0; i < k; ++i) {
        const float right = b[turn_b ? At(column, i, ldb) : At(i, column, ldb)];
        for (int row = 0; row < m; ++row)
          sums[static_cast<size_t>(row)] += a[turn_a ? At(i, row, lda) : At(row, i, lda)] * right;
      }
      for (int row = 0; row < m; ++row) {
        float& out = c[At(row, column, ldc)];
        // With a factor of 0 the library does not read C.
        out = times * sums[static_cast<size_t>(row)] + (keep == 0 ? 0 : keep * out);
      }
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDtrsm(cublasHandle_t handle, cublasSideMode_t side, cublasFillMode_t fill,
                           cublasOperation_t op, cublasDiagType_t diagonal, int m, int n,
                           const double* alpha, const double* a, int lda, double* b, int ldb) {
  if (handle == nullptr || handle->stream == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (side != CUBLAS_SIDE_LEFT || fill != CUBLAS_FILL_MODE_LOWER ||
      diagonal != CUBLAS_DIAG_NON_UNIT || !IsMatrix(a, m, m, lda) || !IsMatrix(b, m, n, ldb))
    return CUBLAS_STATUS_INVALID_VALUE;
  Enqueue([=, times = *alpha] {
    for (int column = 0; column < n; ++column) {
      double* const x = b + At(0, column, ldb);
      for (int i = 0; i < m; ++i) x[i] *= times;
      SolveTriangle(a, lda, m, op == CUBLAS_OP_T, x);
    }
  });
  return CUBLAS_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle) {
  if (emulation::TheMachine().libraries == emulation::Libraries::kWithoutSolver)
    return CUSOLVER_STATUS_NOT_INITIALIZED;
  *handle = new cusolverDnContext;
  ++emulation::HandlesInUse();
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle) {
  delete handle;
  --emulation::HandlesInUse();
  return CUSOLVER_STATUS_SUCCESS;
}
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDpotrf_bufferSize(cusolverDnHandle_t handle, cublasFillMode_t, int n,
                                             double* a, int lda, int* count) {
  if (handle == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (!IsMatrix(a, n, n, lda)) return CUSOLVER_STATUS_INVALID_VALUE;
  *count = RoomFor(n);
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDpotrf(cusolverDnHandle_t handle, cublasFillMode_t fill, int n,
                                  double* a, int lda, double* room, int count, int* info) {
  if (handle == nullptr || handle->stream == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (fill != CUBLAS_FILL_MODE_LOWER || !IsMatrix(a, n, n, lda) || count < RoomFor(n) ||
      !IsMatrix(room, count, 1, count) || !IsMatrix(info, 1, 1, 1))
    return CUSOLVER_STATUS_INVALID_VALUE;
  Enqueue([=] {
    std::fill_n(room, count, std::nan(""));
    *info = FactorLower(a, lda, n);
  });
  return CUSOLVER_STATUS_SUCCESS;
}

cusolverStatus_t cusolverDnDpotrs(cusolverDnHandle_t handle, cublasFillMode_t fill, int n,
                                  int sides, const double* a, int lda, double* b, int ldb,
                                  int* info) {
  if (handle == nullptr || handle->stream == nullptr) return CUSOLVER_STATUS_NOT_INITIALIZED;
  if (fill != CUBLAS_FILL_MODE_LOWER || !IsMatrix(a, n, n, lda) || !IsMatrix(b, n, sides, ldb) ||
      !IsMatrix(info, 1, 1, 1))
    return CUSOLVER_STATUS_INVALID_VALUE;
  Enqueue([=] {
    for (int side = 0; side < sides; ++side) {
      for (const bool turned : {false, true})
        SolveTriangle(a, lda, n, turned, b + At(0, side, ldb));
    }
    *info = 0;
  });
  return CUSOLVER_STATUS_SUCCESS;
}
