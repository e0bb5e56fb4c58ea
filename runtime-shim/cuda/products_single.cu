// Types with one value per block, one at a time: rows of any length and alignment.
#include "runtime-shim/cuda/product_kernels.h"

namespace moepack::runtime::cuda {

extern const ProductKernels kSingleProducts[kPlainTypes] = {
    KernelsOf<PlainBlock<Plain::kF32, 1>>("f32"),
    KernelsOf<PlainBlock<Plain::kF16, 1>>("f16"),
    KernelsOf<PlainBlock<Plain::kBf16, 1>>("bf16"),
    KernelsOf<PlainBlock<Plain::kF8E4M3, 1>>("f8_e4m3"),
    KernelsOf<PlainBlock<Plain::kF8E5M2, 1>>("f8_e5m2"),
};

}  // namespace moepack::runtime::cuda
