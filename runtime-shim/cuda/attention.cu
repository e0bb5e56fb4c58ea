// Attention with a running softmax: a block of threads handles one head of one token and iterates
// over the positions it sees, kPositions at a time. First a warp computes the product of the query
// with each key, then a thread sums its columns of the values.
#include "runtime-shim/cuda/device.h"
#include "runtime-shim/cuda/launch.h"
#include "runtime-shim/cuda/operations.h"

namespace moepack::runtime::cuda {
namespace {

constexpr uint32_t kPositions = 256;
constexpr uint32_t kColumnsOfThread = 4;
constexpr uint32_t kColumns = kColumnsOfThread * kThreads;  // of values, in one block of threads

struct Head {
  AttentionShape shape;
  AttentionRows rows;
};

// The first position that a token at `position` sees.
__device__ uint32_t FirstSeen(const AttentionShape& shape, uint32_t position) {
  uint32_t first = 0;
  if (shape.window != 0 && position >= shape.window) first = position - shape.window + 1;
  const uint32_t of_chunk = shape.chunk != 0 ? position / shape.chunk * shape.chunk : 0;
  return of_chunk > first ? of_chunk : first;
}

// scores[i] = scale * (query . key of position first + i) for i < count, -infinity for the rest.
__device__ void Score(const Head& head, uint32_t first, uint32_t count,
                      float (&scores)[kPositions]) {
  const AttentionShape& shape = head.shape;
  const uint32_t key_head = blockIdx.y / (shape.heads / shape.key_heads);
  const float* const query = head.rows.queries.data + blockIdx.x * head.rows.queries.stride +
                             uint64_t{blockIdx.y} * shape.key_width;
  const uint32_t lane = threadIdx.x % kLanes;
  for (uint32_t i = threadIdx.x / kLanes; i < kPositions; i += kWarps) {
    float sum = 0;
    if (i < count) {
      const float* const key = head.rows.keys.data + (uint64_t{first} + i) * head.rows.keys.stride +
                               uint64_t{key_head} * shape.key_width;
      for (uint32_t c = lane; c < shape.key_width; c += kLanes) sum += query[c] * key[c];
    }
    sum = WarpSum(sum);
    if (lane == 0) scores[i] = i < count ? sum * shape.scale : -INFINITY;
  }
}

// sums[k] = sums[k] * kept + sum over i of scores[i] * value[first + i][column k of this thread]
__device__ void AddValues(const Head& head, uint32_t first, uint32_t count, float kept,
                          const float (&scores)[kPositions], float (&sums)[kColumnsOfThread]) {
  const AttentionShape& shape = head.shape;
  const uint32_t key_head = blockIdx.y / (shape.heads / shape.key_heads);
  const Floats& values = head.rows.values;
  MOEPACK_UNROLL
  for (uint32_t k = 0; k < kColumnsOfThread; ++k) {
    const uint32_t column = blockIdx.z * kColumns + k * kThreads + threadIdx.x;
    if (column >= shape.value_width) break;
    const float* const value =
        values.data + first * values.stride + uint64_t{key_head} * shape.value_width + column;
    float sum = sums[k] * kept;
    for (uint32_t i = 0; i < count; ++i) sum += scores[i] * value[i * values.stride];
    sums[k] = sum;
  }
}

__global__ void __launch_bounds__(kThreads) AttendHead(Head head) {
  __shared__ float scores[kPositions];
  __shared__ float slots[kWarps];
  const AttentionShape& shape = head.shape;
  const uint32_t position = shape.past + blockIdx.x;
  // A sink is a product that was seen before all others.
  const bool with_sink = head.rows.sinks != nullptr;
  float largest = with_sink ? head.rows.sinks[blockIdx.y] : -INFINITY;
  float total = with_sink ? 1.0f : 0.0f;
  float sums[kColumnsOfThread] = {};
  for (uint32_t first = FirstSeen(shape, position); first <= position; first += kPositions) {
    const uint32_t left = position - first + 1, count = left < kPositions ? left : kPositions;
    __syncthreads();
    Score(head, first, count, scores);
    __syncthreads();
    const float score = scores[threadIdx.x];
    const float now = fmaxf(largest, OverWarps<MaxOfWarps>(WarpMax(score), slots));
    const float weight = expf(score - now), kept = expf(largest - now);
    total = total * kept + OverWarps<SumOfWarps>(WarpSum(weight), slots);
    largest = now;
    scores[threadIdx.x] = weight;
    __syncthreads();
    AddValues(head, first, count, kept, scores, sums);
  }
  float* const out = head.rows.out.data + blockIdx.x * head.rows.out.stride +
                     uint64_t{blockIdx.y} * shape.value_width;
  MOEPACK_UNROLL
  for (uint32_t k = 0; k < kColumnsOfThread; ++k) {
    const uint32_t column = blockIdx.z * kColumns + k * kThreads + threadIdx.x;
    if (column < shape.value_width) out[column] = sums[k] / total;
  }
}
static_assert(kPositions == kThreads);

}  // namespace

void Attend(const AttentionShape& shape, const AttentionRows& rows, cudaStream_t stream) {
  if (rows.queries.count == 0 || shape.heads == 0 || shape.value_width == 0) return;
  Launch(AttendHead, {rows.queries.count, shape.heads, Blocks1d(shape.value_width, kColumns)},
         stream, Head{shape, rows});
}

}  // namespace moepack::runtime::cuda
