// How much noise a type adds to what a weight matrix computes, measured on some of its rows, and
// the types of a whole model to what all its matrices compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "libshard/base/files/byte_source.h"
#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/model.h"
#include "libshard/recipe/quantize.h"
#include "quant/format.h"

namespace moepack {

struct DamageSample {
  // The files of the model's checkpoint, in its order.
  std::span<const ByteSourcePtr> sources;
  // How often each slice (expert) takes part, relative to the others; empty: equally often.
  std::span<const float> slice_weights;
  uint32_t rows = 64;  // that are read and encoded, evenly spread; all if there are fewer
};

// Returns, for each type, the mean square of the error that it brings into the matrix's output,
// relative to the mean square of the output:
//
//   sum over rows r and columns c of m(c) (w(r, c) - w'(r, c))^2
//   ------------------------------------------------------------
//            sum over rows r and columns c of m(c) w(r, c)^2
//
// where w' is w encoded and decoded again, with the tensor's importance if it has one, and m(c) is
// the mean square of input c: that importance, or 1. It assumes that inputs are uncorrelated, so it
// is an estimate. 0 for a matrix of zeros. kCorrupt for values that are not finite; errors of
// reading. REQUIRES: the types have encoder and decoder, and rows are whole blocks of them.
Result<std::vector<double>> MeasureDamage(const GgufTensor& tensor,
                                          std::span<const quant::Format* const> types,
                                          const DamageSample& sample);

// Returns the mean, over the same rows, of sum over columns c of m(c) w(r, c)^2: the mean square of
// one output of the matrix. Slices are weighted by slice_weights. Errors are those of
// MeasureDamage.
Result<double> MeasureRowEnergy(const GgufTensor& tensor, const DamageSample& sample);

// The files of the model's checkpoint, in its order. kUnsupported, with its name, for a checkpoint
// without weights: an index or a config alone.
Result<std::vector<ByteSourcePtr>> OpenWeights(const MoeModel& model);

// How many tokens took part in each slice (expert) of the tensor, if the importance matrix knows;
// otherwise empty. Borrows from `typed`.
std::span<const float> SliceWeights(const TypedGguf& typed, const GgufTensor& tensor);

// The sum of MeasureDamage over all matrices, each in its type: 0 for matrices that keep the
// source's bytes or grid. Measured on `sample_rows` rows of every matrix (DamageSample), by `jobs`
// threads; their number does not change the result. REQUIRES: `typed` was made from the model.
// Errors of OpenWeights and of MeasureDamage.
Result<double> DamageOfTypes(const MoeModel& model, const TypedGguf& typed, uint32_t sample_rows,
                             size_t jobs);

}  // namespace moepack
