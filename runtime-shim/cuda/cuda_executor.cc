#include "runtime-shim/cuda/cuda_executor.h"

#include <algorithm>
#include <span>

#include "libshard/base/text/text.h"
#include "runtime-shim/cuda/device.h"
#include "runtime-shim/cuda/operands.h"
#include "runtime-shim/cuda/operations.h"

namespace moepack::runtime::cuda {
namespace {

bool IsAligned(const uint8_t* data, uint64_t row_bytes, uint64_t alignment) {
  return reinterpret_cast<uintptr_t>(data) % alignment == 0 && row_bytes % alignment == 0;
}

const ProductKernels* FindIn(std::span<const ProductKernels> kernels, std::string_view format) {
  for (const ProductKernels& row : kernels) {
    if (row.format == format) return &row;
  }
  return nullptr;
}

// The kernels for rows that are as aligned as `weights`, or the least demanding ones.
const ProductKernels* FindProducts(const quant::Format& format, const Blocks& weights) {
  if (const auto* of_32 = FindIn(kProductsOf32, format.name)) return of_32;
  if (const auto* of_grids = FindIn(kProductsOfGrids, format.name)) return of_grids;
  if (const auto* of_256 = FindIn(kProductsOf256, format.name)) return of_256;
  const ProductKernels* const wide = FindIn(kWideProducts, format.name);
  if (wide != nullptr && IsAligned(weights.data, weights.row_bytes, wide->alignment)) return wide;
  return FindIn(kSingleProducts, format.name);
}

// Calls work(list, first) for kListed rows at a time. Missing values are 0, or 1 for factors.
template <class Work>
void ForEachList(std::span<const uint32_t> rows, std::span<const float> factors, const Work& work) {
  const size_t total = std::max(rows.size(), factors.size());
  for (size_t first = 0; first < total; first += kListed) {
    RowList list{};
    list.count = static_cast<uint32_t>(std::min<size_t>(kListed, total - first));
    for (size_t i = 0; i < list.count; ++i) {
      list.rows[i] = rows.empty() ? 0 : rows[first + i];
      list.factors[i] = factors.empty() ? 1 : factors[first + i];
    }
    work(list, static_cast<uint32_t>(first));
  }
}

}  // namespace

// Bytes at an aligned address: either where they are, or in a copy that lives as long as this
// object.
class CudaExecutor::Aligned {
 public:
  Aligned(CudaExecutor& executor, const uint8_t* data, uint64_t bytes, uint64_t alignment)
      : executor_(executor), data_(data) {
    if (data == nullptr || IsAligned(data, 0, alignment)) return;
    executor.Note("allocation", cudaMallocAsync(&copy_, bytes + kPadding, executor.stream_));
    if (copy_ == nullptr) return;
    data_ = static_cast<const uint8_t*>(copy_);
    executor.Note("copy",
                  cudaMemcpyAsync(copy_, data, bytes, cudaMemcpyDeviceToDevice, executor.stream_));
  }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  ~Aligned() {
    if (copy_ != nullptr) executor_.Note("free", cudaFreeAsync(copy_, executor_.stream_));
  }
  const uint8_t* data() const { return data_; }

 private:
  CudaExecutor& executor_;
  const uint8_t* data_;
  void* copy_ = nullptr;
};

Result<std::unique_ptr<Executor>> CudaExecutor::Open(int device) {
  std::unique_ptr<CudaExecutor> executor(new CudaExecutor(device));
  SHARD_CHECK(executor->Prepare());
  return std::unique_ptr<Executor>(std::move(executor));
}

Status CudaExecutor::Prepare() {
  SHARD_CHECK(Checked(Cat("device ", device_), cudaSetDevice(device_)));
  cudaDeviceProp properties;
  SHARD_CHECK(Checked("properties", cudaGetDeviceProperties(&properties, device_)));
  multiprocessors_ = properties.multiProcessorCount;
  description_ = Cat(properties.name, ", compute capability ", properties.major, ".",
                     properties.minor, ", ", FormatBytes(properties.totalGlobalMem));
  SHARD_CHECK(Checked("stream", cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)));
  SHARD_TRY(upload_, Upload::Make(stream_));
  SHARD_TRY(partial_, DeviceBuffer::Make(device_, partial_tiles() * kTileValues * sizeof(float)));
  return Ok();
}

CudaExecutor::~CudaExecutor() {
  cudaSetDevice(device_);
  if (stream_ == nullptr) return;
  cudaStreamSynchronize(stream_);
  algebra_.reset();
  upload_.reset();
  cudaStreamDestroy(stream_);
}

uint64_t CudaExecutor::available() const {
  size_t free = 0, total = 0;
  cudaSetDevice(device_);
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return UINT64_MAX;
  return free;
}

bool CudaExecutor::Supports(const quant::Format* format) const {
  return FindProducts(*format, {}) != nullptr;
}

bool CudaExecutor::Ready() {
  if (!failed_) Note("device", cudaSetDevice(device_));
  return !failed_;
}

void CudaExecutor::Fail(Error error) {
  if (!failed_) failed_ = std::move(error);
}

void CudaExecutor::Note(const char* operation, cudaError_t error) {
  if (error != cudaSuccess) Fail(DeviceError(operation, error));
}

// A device that is lost also keeps the libraries from starting; the next Read or Finish says so.
DenseAlgebra* CudaExecutor::algebra() {
  if (algebra_ != nullptr || without_algebra_ || !Ready()) return algebra_.get();
  auto made = CudaAlgebra::Make(*this);
  if (made) {
    algebra_ = std::move(*made);
  } else {
    without_algebra_ = made.error();
  }
  return algebra_.get();
}

std::optional<Error> CudaExecutor::WithoutAlgebra() {
  algebra();
  return without_algebra_;
}

Result<BufferPtr> CudaExecutor::Allocate(uint64_t bytes) {
  if (!Ready()) return *failed_;
  SHARD_TRY(auto buffer, DeviceBuffer::Make(device_, bytes));
  Note("clearing", cudaMemsetAsync(buffer->data(), 0, bytes, stream_));
  return BufferPtr(std::move(buffer));
}

Result<BufferPtr> CudaExecutor::Load(const TensorBytes& bytes) {
  if (!Ready()) return *failed_;
  SHARD_TRY(auto buffer, DeviceBuffer::Make(device_, bytes.size()));
  uint8_t* to = buffer->data();
  for (const ByteView view : bytes.views()) {
    Note("upload", upload_->Copy(view, to));
    to += view.size();
  }
  if (failed_) return *failed_;
  return BufferPtr(std::move(buffer));
}

void CudaExecutor::Write(std::span<const float> values, const Rows& to) {
  if (!Ready()) return;
  const Floats floats = FloatsOf(to);
  const bool dense = floats.stride == floats.width;
  const size_t at_once = dense ? values.size() : floats.width;
  for (size_t first = 0; first < values.size(); first += at_once) {
    float* const row = floats.data + (dense ? 0 : first / at_once * floats.stride);
    Note("write", upload_->Copy(std::as_bytes(values.subspan(first, at_once)),
                                reinterpret_cast<uint8_t*>(row)));
  }
}

Status CudaExecutor::Read(const Rows& from, std::span<float> values) {
  if (!Ready()) return *failed_;
  const Floats floats = FloatsOf(from);
  if (!values.empty())
    CopyToHost({reinterpret_cast<const uint8_t*>(floats.data), floats.width * sizeof(float),
                floats.stride * sizeof(float), floats.count},
               values.data());
  return Finish();
}

// Rows without gaps are one copy, which is faster than one of as many rows.
void CudaExecutor::CopyToHost(const StridedBytes& from, void* to) {
  if (from.stride_bytes == from.row_bytes) {
    Note("read", cudaMemcpyAsync(to, from.data, from.row_bytes * from.count, cudaMemcpyDeviceToHost,
                                 stream_));
  } else {
    Note("read", cudaMemcpy2DAsync(to, from.row_bytes, from.data, from.stride_bytes, from.row_bytes,
                                   from.count, cudaMemcpyDeviceToHost, stream_));
  }
}

Status CudaExecutor::Finish() {
  if (Ready()) Note("device", cudaStreamSynchronize(stream_));
  if (failed_) return *failed_;
  return Ok();
}

template <class Work>
void CudaExecutor::WithBlocks(const Matrix& weights, const Work& work) {
  if (!Ready() || weights.rows == 0 || weights.columns == 0) return;
  Blocks blocks{DataOf(weights.buffer) + weights.offset, weights.row_bytes(), weights.rows,
                weights.columns};
  const ProductKernels& kernels = *FindProducts(*weights.format, blocks);
  const Aligned aligned(*this, blocks.data, blocks.row_bytes * blocks.rows, kernels.alignment);
  blocks.data = aligned.data();
  if (!failed_) work(kernels, blocks);
}

template <class Work>
void CudaExecutor::WithVectors(const Matrix& a, const Matrix& b, const Work& work) {
  if (!Ready()) return;
  const auto data = [](const Matrix& vector) -> const uint8_t* {
    return vector ? DataOf(vector.buffer) + vector.offset : nullptr;
  };
  const Aligned aligned_a(*this, data(a), a.columns * sizeof(float), sizeof(float));
  const Aligned aligned_b(*this, data(b), b.columns * sizeof(float), sizeof(float));
  if (failed_) return;
  work(reinterpret_cast<const float*>(aligned_a.data()),
       reinterpret_cast<const float*>(aligned_b.data()));
}

void CudaExecutor::MatMul(const Matrix& weights, const Rows& x, const Rows& y) {
  if (x.count == 0) return;
  WithBlocks(weights, [&](const ProductKernels& kernels, const Blocks& blocks) {
    kernels.multiply({blocks, FloatsOf(x), FloatsOf(y), multiprocessors_,
                      reinterpret_cast<float*>(partial_->data()), partial_tiles()},
                     stream_);
    NoteLaunch("product");
  });
}

void CudaExecutor::Embed(const Matrix& weights, std::span<const uint32_t> ids, const Rows& y) {
  WithBlocks(weights, [&](const ProductKernels& kernels, const Blocks& blocks) {
    ForEachList(ids, {}, [&](const RowList& list, uint32_t first) {
      kernels.embed(blocks, list, FloatsOf(y.Slice(first, list.count)), stream_);
    });
    NoteLaunch("rows of weights");
  });
}

void CudaExecutor::RmsNorm(const Rows& x, const NormWeights& norm, const Rows& y) {
  WithVectors(norm.weight, norm.bias, [&](const float* weight, const float* bias) {
    cuda::RmsNorm(FloatsOf(x), {weight, bias, norm.eps}, FloatsOf(y), stream_);
    NoteLaunch("norm");
  });
}

void CudaExecutor::MeasureRows(const Rows& x, const Rows& sizes) {
  if (!Ready()) return;
  cuda::MeasureRows(FloatsOf(x), FloatsOf(sizes), stream_);
  NoteLaunch("sizes of rows");
}

void CudaExecutor::Copy(const Rows& from, const Rows& to) {
  if (!Ready()) return;
  const Floats source = FloatsOf(from), target = FloatsOf(to);
  if (source.stride == source.width && target.stride == target.width) {
    const uint64_t bytes = source.stride * source.count * sizeof(float);
    return Note("copy", cudaMemcpyAsync(target.data, source.data, bytes, cudaMemcpyDeviceToDevice,
                                        stream_));
  }
  cuda::Copy(source, target, stream_);
  NoteLaunch("copy");
}

void CudaExecutor::Transpose(const Rows& x, const Rows& y) {
  if (!Ready()) return;
  cuda::Transpose(FloatsOf(x), FloatsOf(y), stream_);
  NoteLaunch("transposition");
}

void CudaExecutor::AddBias(const Rows& x, const Matrix& bias) {
  WithVectors(bias, {}, [&](const float* values, const float*) {
    cuda::AddBias(FloatsOf(x), values, stream_);
    NoteLaunch("bias");
  });
}

void CudaExecutor::Add(const Rows& x, const Rows& y, float scale) {
  if (!Ready()) return;
  cuda::Add(FloatsOf(x), FloatsOf(y), scale, stream_);
  NoteLaunch("sum");
}

void CudaExecutor::Scale(const Rows& x, float factor) {
  if (!Ready()) return;
  cuda::Scale(FloatsOf(x), factor, stream_);
  NoteLaunch("scale");
}

void CudaExecutor::ScaleRows(const Rows& x, std::span<const float> factors) {
  if (!Ready()) return;
  ForEachList({}, factors, [&](const RowList& list, uint32_t first) {
    cuda::ScaleRows(FloatsOf(x.Slice(first, list.count)), list, stream_);
  });
  NoteLaunch("scales of rows");
}

void CudaExecutor::ScaleBySigmoid(const Rows& x, const Rows& gate) {
  if (!Ready()) return;
  cuda::ScaleBySigmoid(FloatsOf(x), FloatsOf(gate), stream_);
  NoteLaunch("gate");
}

void CudaExecutor::Activate(Activation activation, const Rows& gate, const Rows& up) {
  if (!Ready()) return;
  cuda::Activate(activation, FloatsOf(gate), FloatsOf(up), stream_);
  NoteLaunch("activation");
}

void CudaExecutor::Rotate(const Rows& x, const Rotation& rotation, const Rows& turns) {
  if (!Ready()) return;
  cuda::Rotate(FloatsOf(x), rotation, FloatsOf(turns), stream_);
  NoteLaunch("rotation");
}

void CudaExecutor::Attention(const AttentionShape& shape, const AttentionInputs& inputs,
                             const Rows& out) {
  WithVectors(inputs.sinks, {}, [&](const float* sinks, const float*) {
    const AttentionRows rows = {FloatsOf(inputs.queries), FloatsOf(inputs.keys),
                                FloatsOf(inputs.values), FloatsOf(out), sinks};
    Attend(shape, rows, stream_);
    NoteLaunch("attention");
  });
}

void CudaExecutor::Gather(const Rows& x, std::span<const uint32_t> rows,
                          std::span<const float> factors, const Rows& y) {
  if (!Ready()) return;
  ForEachList(rows, factors, [&](const RowList& list, uint32_t first) {
    cuda::Gather(FloatsOf(x), list, FloatsOf(y.Slice(first, list.count)), stream_);
  });
  NoteLaunch("rows");
}

void CudaExecutor::ScatterAdd(const Rows& x, std::span<const uint32_t> rows,
                              std::span<const float> factors, const Rows& y) {
  if (!Ready()) return;
  ForEachList(rows, factors, [&](const RowList& list, uint32_t first) {
    cuda::ScatterAdd(FloatsOf(x), list, FloatsOf(y.Slice(first, list.count)), stream_);
  });
  NoteLaunch("sums of rows");
}

}  // namespace moepack::runtime::cuda
