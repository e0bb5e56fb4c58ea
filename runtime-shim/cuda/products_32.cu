#include "runtime-shim/cuda/blocks_32.h"
#include "runtime-shim/cuda/product_kernels.h"

namespace moepack::runtime::cuda {

extern const ProductKernels kProductsOf32[kTypesOf32] = {
    KernelsOf<Q80>("q8_0"),    KernelsOf<Q40>("q4_0"),    KernelsOf<Q41>("q4_1"),
    KernelsOf<Q50>("q5_0"),    KernelsOf<Q51>("q5_1"),    KernelsOf<Iq4Nl>("iq4_nl"),
    KernelsOf<Mxfp4>("mxfp4"), KernelsOf<Nvfp4>("nvfp4"),
};

}  // namespace moepack::runtime::cuda
