// How much of what flows through a model each of its blocks puts there, estimated from weights and
// an importance matrix: what makes errors in different layers comparable.
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

// Of one layer, the part of the residual stream's energy behind the block that the block's output
// has: between 0 and 1.
struct LayerShares {
  double attention = 1;
  double experts = 1;  // the routed ones together
  double shared = 1;   // shared experts, or the MLP of a layer without experts
};
using ResidualShares = std::map<uint32_t, LayerShares>;

// The energy of a stream is the mean of its square, summed over its columns. Outputs of blocks are
// taken for uncorrelated, so that their energies add up:
//
//   embedding:  E = mean square of a row
//   block:      E += s * sum over rows r and columns c of m(c) w(r, c)^2    of its last matrix
//
// with m from the importance matrix. The chosen experts are taken to get equal gates, so s is 1 /
// top-k for them, and each expert counts by its tokens. All of it is measured on `sample_rows` rows
// of a matrix (DamageSample). Empty when the importance matrix says nothing about the last matrix
// of some block. Errors of reading.
Result<ResidualShares> MeasureResidualShares(const TypedGguf& typed,
                                             std::span<const ByteSourcePtr> sources,
                                             uint32_t sample_rows);

// The share of the block that a tensor belongs to; 1 for tensors outside of layers and for layers
// that `shares` does not have.
double ShareOf(const ResidualShares& shares, const GgufTensor& tensor);

}  // namespace moepack
