// cuBLAS and cuSOLVER, opened when the first algebra is asked for: they are hundreds of megabytes,
// which would cost every command a tenth of a second, and a program that does not use them starts
// without them.
#pragma once

#include <cublas_v2.h>
#include <cusolverDn.h>

#include "libshard/base/result.h"

namespace moepack::runtime::cuda {

// The functions that we call: FUNCTION(member, name). Some names are macros for the real ones.
#define MOEPACK_CUBLAS(FUNCTION)             \
  FUNCTION(create_blas, cublasCreate)        \
  FUNCTION(destroy_blas, cublasDestroy)      \
  FUNCTION(set_blas_stream, cublasSetStream) \
  FUNCTION(set_mode, cublasSetMathMode)      \
  FUNCTION(multiply, cublasSgemm)            \
  FUNCTION(solve_triangle, cublasDtrsm)
#define MOEPACK_CUSOLVER(FUNCTION)                      \
  FUNCTION(create_solver, cusolverDnCreate)             \
  FUNCTION(destroy_solver, cusolverDnDestroy)           \
  FUNCTION(set_solver_stream, cusolverDnSetStream)      \
  FUNCTION(room_of_factor, cusolverDnDpotrf_bufferSize) \
  FUNCTION(factorize, cusolverDnDpotrf)                 \
  FUNCTION(solve, cusolverDnDpotrs)

struct Libraries {
#define MOEPACK_MEMBER(member, name) decltype(&name) member = nullptr;
  MOEPACK_CUBLAS(MOEPACK_MEMBER)
  MOEPACK_CUSOLVER(MOEPACK_MEMBER)
#undef MOEPACK_MEMBER
};

// The hint of errors that other libraries mend.
inline constexpr const char* kInstallLibraries =
    "install the libraries of the CUDA toolkit, or name their directory in LD_LIBRARY_PATH";

// Once opened, they stay. kUnavailable if one is missing, or lacks a function.
Result<Libraries> OpenLibraries();

}  // namespace moepack::runtime::cuda
