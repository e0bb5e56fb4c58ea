// How much each block contributes to what flows through a model, estimated from weights and an
// importance matrix. This makes errors in different layers comparable.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/recipe/quantize.h"

namespace moepack {

// For one layer, the share of the residual stream's energy after the block that comes from the
// block's output: between 0 and 1.
struct LayerShares {
  double attention = 1;
  double experts = 1;  // the routed ones together
  double shared = 1;   // shared experts, or the MLP of a layer without experts
};
using ResidualShares = std::map<uint32_t, LayerShares>;

// The energy of a stream is the mean of its square, summed over its columns. The outputs of blocks
// are assumed to be uncorrelated, so that their energies add up:
//
//   embedding:  E = mean square of a row
//   block:      E += s * sum over rows r and columns c of m(c) w(r, c)^2    of its last matrix
//
// with m from the importance matrix. The chosen experts are assumed to get equal gates, so s is 1 /
// top-k for them, and each expert is weighted by its tokens. Everything is measured on
// `sample_rows` rows of a matrix (DamageSample). Empty if the importance matrix has nothing for the
// last matrix of some block. Errors of reading.
Result<ResidualShares> MeasureResidualShares(const TypedGguf& typed,
                                             std::span<const ByteSourcePtr> sources,
                                             uint32_t sample_rows);

// The share of the block that a tensor belongs to; 1 for tensors outside layers and for layers that
// are not in `shares`.
double ShareOf(const ResidualShares& shares, const GgufTensor& tensor);

}  // namespace moepack
