// The part of cuSOLVER that runtime-shim/cuda uses, on the emulated device; like cublas_v2.h.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

enum cusolverStatus_t {
  CUSOLVER_STATUS_SUCCESS = 0,
  CUSOLVER_STATUS_NOT_INITIALIZED = 1,
  CUSOLVER_STATUS_ALLOC_FAILED = 2,
  CUSOLVER_STATUS_INVALID_VALUE = 3,
};

struct cusolverDnContext;
using cusolverDnHandle_t = cusolverDnContext*;

cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t* handle);
cusolverStatus_t cusolverDnDestroy(cusolverDnHandle_t handle);
cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream);
// The numbers of doubles that the factorization needs beside the matrix.
cusolverStatus_t cusolverDnDpotrf_bufferSize(cusolverDnHandle_t handle, cublasFillMode_t fill,
                                             int n, double* a, int lda, int* count);
// Replaces the triangle by the Cholesky factor. `info`, on the device: 0, or the first pivot that
// is not positive, counted from 1.
cusolverStatus_t cusolverDnDpotrf(cusolverDnHandle_t handle, cublasFillMode_t fill, int n,
                                  double* a, int lda, double* room, int count, int* info);
// Solves A X = B with the factor, for X [n, sides], which replaces B.
cusolverStatus_t cusolverDnDpotrs(cusolverDnHandle_t handle, cublasFillMode_t fill, int n,
                                  int sides, const double* a, int lda, double* b, int ldb,
                                  int* info);
