#include "runtime-shim/cuda/blocks_grids.h"
#include "runtime-shim/cuda/product_kernels.h"

namespace moepack::runtime::cuda {

extern const ProductKernels kProductsOfGrids[kTypesOfGrids] = {
    KernelsOf<Iq1S>("iq1_s"),   KernelsOf<Iq1M>("iq1_m"), KernelsOf<Iq2Xxs>("iq2_xxs"),
    KernelsOf<Iq2Xs>("iq2_xs"), KernelsOf<Iq2S>("iq2_s"), KernelsOf<Iq3Xxs>("iq3_xxs"),
    KernelsOf<Iq3S>("iq3_s"),
};

}  // namespace moepack::runtime::cuda
