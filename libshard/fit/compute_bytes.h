// Estimates the buffers that a runtime computes in, in addition to weights and cache.
#pragma once

#include <cstdint>

#include "libshard/model/model.h"

namespace moepack {

// A batch of kBatchTokens tokens in F32: logits over the vocabulary, eight vectors of hidden size
// (residual stream, norm, queries, keys, values, the attention's output and copies between
// devices), and for each of the top-k experts its output and three vectors of its width; and the
// attention's mask, one number per token of the batch and of `context`. llama.cpp reserves logits
// for every token of a batch, which is most of it. Sizes that are not in the config count as 0;
// --reserve overrides the estimate.
uint64_t ComputeBytes(const MoeModel& model, uint64_t context);

}  // namespace moepack
