// Requantizes a GGUF distribution: the same plan and files, with every tensor encoded again.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "libshard/recipe/quantize.h"
#include "manifest/write/bundle.h"

namespace moepack::manifest {

// Uses gguf (required), pack, force, list_types, command and notes of the WriteOptions. Types are
// chosen as for the whole model. The draft's `check` verifies the distribution. kUnsupported for
// safetensors bundles, which keep their source's bytes, and for distributions that lack parts,
// because types cannot be chosen for missing tensors.
Result<Draft> DraftRequantized(const std::string& distribution, const std::string& out,
                               const WriteOptions& options);
// The draft, packed and published.
Result<WriteReport> RequantizeDistribution(const std::string& distribution, const std::string& out,
                                           const WriteOptions& options);

// Returns tool.recipe of a requantized distribution: how its types were chosen, and from what.
std::string RequantizedRecipe(const std::string& own, const std::string& before);

// Returns the files that requantizing a distribution with the files `before` would give, made from
// the sources of `before`. `manifest` has the model and the plan.
Result<WritePlan> RequantizeInMemory(const Manifest& manifest,
                                     const std::vector<OutputFile>& before,
                                     const WriteOptions& options);

}  // namespace moepack::manifest
