// Memory, the stream and events of the emulated device.
#include <cuda_runtime.h>

#include <cstring>
#include <deque>
#include <map>
#include <set>
#include <string>

namespace emulation {
namespace {

constexpr size_t kAlignment = 256;
// Blocks of a grid in its first dimension, and in each other one.
constexpr unsigned kMostBlocks = 0x7fffffff, kMostOthers = 0xffff;

// Of launches, until somebody asks.
cudaError_t& LastError() {
  static cudaError_t error = cudaSuccess;
  return error;
}

struct Stream {
  std::deque<std::function<void()>> works;
  uint64_t done = 0, added = 0;
  cudaError_t error = cudaSuccess;  // stays

  cudaError_t RunUntil(uint64_t end) {
    for (; done < end; ++done) {
      if (TheMachine().lost) error = cudaErrorIllegalAddress;
      if (error == cudaSuccess) works.front()();
      works.pop_front();
    }
    return error;
  }
};

Stream& TheStream() {
  static Stream stream;
  return stream;
}

std::map<void*, size_t>& Allocations() {
  static std::map<void*, size_t> allocations;
  return allocations;
}

std::set<const void*>& Pinned() {
  static std::set<const void*> pinned;
  return pinned;
}

// Filled with bytes that make unwritten floats NaN.
cudaError_t Allocate(void** memory, size_t bytes) {
  if (bytes > TheMachine().memory - std::min(TheMachine().memory, BytesInUse()))
    return cudaErrorMemoryAllocation;
  *memory = std::aligned_alloc(kAlignment, (bytes / kAlignment + 1) * kAlignment);
  std::memset(*memory, 0xff, bytes);
  Allocations()[*memory] = bytes;
  MostBytesInUse() = std::max(MostBytesInUse(), BytesInUse());
  return cudaSuccess;
}

cudaError_t Free(void* memory) {
  if (memory == nullptr) return cudaSuccess;
  if (Allocations().erase(memory) == 0) return cudaErrorInvalidValue;
  Pinned().erase(memory);
  std::free(memory);
  return cudaSuccess;
}

cudaError_t WaitForAll() { return TheStream().RunUntil(TheStream().added); }

}  // namespace

Machine& TheMachine() {
  static Machine machine;
  return machine;
}

size_t BytesInUse() {
  size_t total = 0;
  for (const auto& [memory, bytes] : Allocations()) total += bytes;
  return total;
}

size_t& MostBytesInUse() {
  static size_t most = 0;
  return most;
}

bool IsOnDevice(const void* data, size_t bytes) {
  const auto* const first = static_cast<const char*>(data);
  for (const auto& [memory, size] : Allocations()) {
    const auto* const begin = static_cast<const char*>(memory);
    if (first >= begin && first + bytes <= begin + size) return !Pinned().contains(memory);
  }
  return false;
}

bool TakesGrid(dim3 grid) {
  const bool takes = grid.x > 0 && grid.y > 0 && grid.z > 0 && grid.x <= kMostBlocks &&
                     grid.y <= kMostOthers && grid.z <= kMostOthers;
  if (!takes) LastError() = cudaErrorInvalidConfiguration;
  return takes;
}

void Enqueue(std::function<void()> work) {
  TheStream().works.push_back(std::move(work));
  ++TheStream().added;
}

}  // namespace emulation

using emulation::TheMachine;

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess:
      return "no error";
    case cudaErrorMemoryAllocation:
      return "out of memory";
    case cudaErrorInvalidConfiguration:
      return "invalid configuration argument";
    case cudaErrorNoDevice:
      return "no CUDA-capable device is detected";
    case cudaErrorIllegalAddress:
      return "an illegal memory access was encountered";
    default:
      return "invalid argument";
  }
}

cudaError_t cudaGetLastError() { return std::exchange(emulation::LastError(), cudaSuccess); }

cudaError_t cudaGetDeviceCount(int* count) {
  *count = TheMachine().devices;
  return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int) {
  *properties = {"emulated", TheMachine().memory, TheMachine().major, TheMachine().minor, 2};
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  return device < TheMachine().devices ? cudaSuccess : cudaErrorInvalidValue;
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  *total = TheMachine().memory;
  *free = *total - std::min(*total, emulation::BytesInUse());
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** memory, size_t bytes) { return emulation::Allocate(memory, bytes); }
cudaError_t cudaFree(void* memory) {
  emulation::WaitForAll();
  return emulation::Free(memory);
}
cudaError_t cudaMallocHost(void** memory, size_t bytes) {
  const cudaError_t error = emulation::Allocate(memory, bytes);
  if (error == cudaSuccess) emulation::Pinned().insert(*memory);
  return error;
}
cudaError_t cudaFreeHost(void* memory) { return cudaFree(memory); }

cudaError_t cudaMallocAsync(void** memory, size_t bytes, cudaStream_t) {
  return emulation::Allocate(memory, bytes);
}
cudaError_t cudaFreeAsync(void* memory, cudaStream_t) {
  emulation::Enqueue([memory] { emulation::Free(memory); });
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* memory, int value, size_t bytes, cudaStream_t) {
  emulation::Enqueue([=] { std::memset(memory, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind,
                            cudaStream_t) {
  emulation::Enqueue([=] { std::memcpy(to, from, bytes); });
  return cudaSuccess;
}

cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch,
                              size_t width, size_t height, cudaMemcpyKind, cudaStream_t) {
  if (to_pitch < width || from_pitch < width) return cudaErrorInvalidValue;
  emulation::Enqueue([=] {
    for (size_t row = 0; row < height; ++row) {
      std::memcpy(static_cast<char*>(to) + row * to_pitch,
                  static_cast<const char*>(from) + row * from_pitch, width);
    }
  });
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  emulation::TheStream() = {};
  *stream = reinterpret_cast<cudaStream_t>(&emulation::TheStream());
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t) { return emulation::WaitForAll(); }
cudaError_t cudaStreamDestroy(cudaStream_t) { return emulation::WaitForAll(); }

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new emulation::Event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t) {
  event->after = emulation::TheStream().added;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return emulation::TheStream().RunUntil(event->after);
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}
