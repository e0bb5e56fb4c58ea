#include "runtime-shim/cuda/blocks_k.h"
#include "runtime-shim/cuda/blocks_ternary.h"
#include "runtime-shim/cuda/product_kernels.h"

namespace moepack::runtime::cuda {

extern const ProductKernels kProductsOf256[kTypesOf256] = {
    KernelsOf<Q2K>("q2_K"),   KernelsOf<Q3K>("q3_K"),   KernelsOf<Q4K>("q4_K"),
    KernelsOf<Q5K>("q5_K"),   KernelsOf<Q6K>("q6_K"),   KernelsOf<Iq4Xs>("iq4_xs"),
    KernelsOf<Tq10>("tq1_0"), KernelsOf<Tq20>("tq2_0"),
};

}  // namespace moepack::runtime::cuda
