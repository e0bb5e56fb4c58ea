// Executor on one GPU: it uses one stream, and only Read, Finish and the ring of Upload wait for
// it; of its algebra, Read and Factorize.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime-shim/cuda/dense_algebra.h"
#include "runtime-shim/cuda/memory.h"
#include "runtime-shim/cuda/products.h"
#include "runtime-shim/executor/executor.h"

namespace moepack::runtime::cuda {

class CudaExecutor : public Executor {
 public:
  // REQUIRES: there is a device with this number.
  static Result<std::unique_ptr<Executor>> Open(int device);
  ~CudaExecutor() override;

  std::string name() const override { return "cuda"; }
  std::string description() const override { return description_; }
  uint64_t available() const override;
  bool Supports(const quant::Format* format) const override;
  // The first call of either starts the libraries. The executor works without them, too.
  DenseAlgebra* algebra() override;
  std::optional<Error> WithoutAlgebra() override;

  Result<BufferPtr> Allocate(uint64_t bytes) override;
  Result<BufferPtr> Load(const TensorBytes& bytes) override;
  void Write(std::span<const float> values, const Rows& to) override;
  Status Read(const Rows& from, std::span<float> values) override;
  Status Finish() override;

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override;
  SHARD_OPERATIONS(SHARD_OVERRIDE)

  // What its algebra shares with it.
  int device() const { return device_; }
  cudaStream_t stream() const { return stream_; }
  Upload& upload() { return *upload_; }
  // Keeps the first error; later operations are skipped.
  bool Ready();
  void Fail(Error error);
  void Note(const char* operation, cudaError_t error);
  // Queues a copy to the host, row after row.
  struct StridedBytes {
    const uint8_t* data = nullptr;
    uint64_t row_bytes = 0, stride_bytes = 0, count = 0;
  };
  void CopyToHost(const StridedBytes& from, void* to);
  // Notes errors from launching the operation's kernels.
  void NoteLaunch(const char* operation) { Note(operation, cudaGetLastError()); }

 private:
  explicit CudaExecutor(int device) : device_(device) {}
  Status Prepare();

  // Calls `work` with weights and the kernels that their alignment allows. Weights that no kernel
  // accepts where they are stored are copied to a suitable place until `work` ends.
  template <class Work>
  void WithBlocks(const Matrix& weights, const Work& work);
  // F32 vectors, in the same way; null if there is none.
  template <class Work>
  void WithVectors(const Matrix& a, const Matrix& b, const Work& work);

  // The tiles that `partial_` has room for: about as many as blocks of threads run at once.
  uint64_t partial_tiles() const { return 2 * static_cast<uint64_t>(multiprocessors_); }

  class Aligned;

  int device_;
  int multiprocessors_ = 1;
  std::string description_;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<Upload> upload_;
  std::unique_ptr<DeviceBuffer> partial_;  // Product::partial
  std::unique_ptr<CudaAlgebra> algebra_;
  std::optional<Error> without_algebra_;
  std::optional<Error> failed_;
};

}  // namespace moepack::runtime::cuda
