// Makes the records of a manifest from what will be written or has just been written.
#pragma once

#include <string>

#include "libshard/model/model.h"
#include "libshard/pack/pack.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"
#include "manifest/document/manifest.h"

namespace moepack::manifest {

// Describes model, versions and plan, without bundles and assets.
Manifest DescribeModel(const MoeModel& model, const Plan& plan, const std::string& model_id,
                       const std::string& revision);

// Describe a tensor or file as it was laid out, with the digests of what was written. Move the
// layout in if it is no longer needed: for a large model it takes as much memory as the records.
TensorRecord DescribeTensor(OutputTensor tensor, std::string xxh3);
BundleRecord DescribeBundle(OutputFile file, const FileDigests& digests, const std::string& format);

// Describes how the types of GGUF bundles were chosen.
RecipeRecord DescribeRecipe(const QuantizeOptions& options, const TypedGguf& typed);

// Returns SOURCE_DATE_EPOCH from the environment; 0 if it is not set, kInvalidArgument if it is not
// a number.
Result<uint64_t> SourceDateEpoch();

}  // namespace moepack::manifest
