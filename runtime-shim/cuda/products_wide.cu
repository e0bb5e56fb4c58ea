// Types with one value per block, several at a time.
#include "runtime-shim/cuda/product_kernels.h"

namespace moepack::runtime::cuda {

extern const ProductKernels kWideProducts[kPlainTypes] = {
    KernelsOf<PlainBlock<Plain::kF32, 4>>("f32"),
    KernelsOf<PlainBlock<Plain::kF16, 8>>("f16"),
    KernelsOf<PlainBlock<Plain::kBf16, 8>>("bf16"),
    KernelsOf<PlainBlock<Plain::kF8E4M3, 8>>("f8_e4m3"),
    KernelsOf<PlainBlock<Plain::kF8E5M2, 8>>("f8_e5m2"),
};

}  // namespace moepack::runtime::cuda
