// Products with weights in blocks: one row of this table for each type, and the kernels behind it.
// Declared apart from the kernels, for the host compiler.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <string_view>

namespace moepack::runtime::cuda {

// Rows of weights on the device.
struct Blocks {
  const uint8_t* data;
  uint64_t row_bytes;
  uint32_t rows, columns;
};

// F32 rows on the device; row i starts at data + i * stride.
struct Floats {
  float* data;
  uint64_t stride;
  uint32_t count, width;
};

// F64 rows on the device, in the same way.
struct DoubleValues {
  double* data;
  uint64_t stride;
  uint32_t count, width;
};

// The product for many tokens computes kTile rows of y for kTile tokens in a block of threads
// (multiply_tiles.h).
inline constexpr int kTile = 64;
inline constexpr int kTileValues = kTile * kTile;

struct Product {
  Blocks weights;
  Floats x, y;  // y[t][r] = sum over c of weights[r][c] * x[t][c]
  int multiprocessors;
  float* partial;  // room for partial_tiles tiles of sums, each over some of the columns
  uint64_t partial_tiles;
};

// Up to kListed row numbers and factors are passed as parameters of a kernel, which may have 4 KB.
inline constexpr uint32_t kListed = 480;
struct RowList {
  uint32_t count;
  uint32_t rows[kListed];
  float factors[kListed];
};

struct ProductKernels {
  std::string_view format;  // quant::Format::name
  uint32_t alignment;       // that weights and their rows need, in bytes
  void (*multiply)(const Product& product, cudaStream_t stream);
  // y[i] = row list.rows[i] of the weights
  void (*embed)(const Blocks& weights, const RowList& list, const Floats& y, cudaStream_t stream);
};

// The table, in the files products_*.cu.
inline constexpr int kPlainTypes = 5, kTypesOf32 = 8, kTypesOf256 = 8, kTypesOfGrids = 7;
extern const ProductKernels kWideProducts[kPlainTypes];    // rows with the alignment stated
extern const ProductKernels kSingleProducts[kPlainTypes];  // any other rows of these types
extern const ProductKernels kProductsOf32[kTypesOf32];
extern const ProductKernels kProductsOf256[kTypesOf256];
extern const ProductKernels kProductsOfGrids[kTypesOfGrids];

}  // namespace moepack::runtime::cuda
