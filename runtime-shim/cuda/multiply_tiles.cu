#include "runtime-shim/cuda/multiply_tiles.h"

namespace moepack::runtime::cuda {
namespace {

// blockIdx: tile of rows, tile of tokens, value of each thread.
__global__ void __launch_bounds__(kThreads) AddSharesOfValue(Product product, TileGrid grid) {
  float sum = 0;
  for (uint32_t share = 0; share < grid.shares; ++share) {
    sum += *PartialValue(product, grid, share, blockIdx.z);
  }
  StoreValue(product, blockIdx.z, sum);
}

}  // namespace

void AddShares(const Product& product, const TileGrid& grid, cudaStream_t stream) {
  Launch(AddSharesOfValue, {grid.rows, grid.tokens, kThreadValues}, stream, product, grid);
}

}  // namespace moepack::runtime::cuda
