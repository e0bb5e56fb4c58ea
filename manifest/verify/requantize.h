// Requantizes a GGUF distribution: the same plan and files, with every tensor encoded again.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "libshard/recipe/quantize.h"
#include "manifest/write/bundle.h"
#include "manifest/write/draft.h"

namespace moepack::manifest {

// Uses gguf (required), pack, force, command and notes of the WriteOptions. Types are chosen as for
// the whole model. kUnsupported for safetensors bundles, which keep their source's bytes, and for
// distributions that lack parts, because types cannot be chosen for missing tensors.
Result<WritePlan> PlanRequantized(const std::string& distribution, const WriteOptions& options);
Result<WriteReport> RequantizeDistribution(const std::string& distribution, const std::string& out,
                                           const WriteOptions& options);

// The draft of RequantizeDistribution. `check`: verifies the distribution first, as that does;
// among several tasks, one is enough.
Result<Draft> DraftRequantized(const std::string& distribution, const std::string& out,
                               const WriteOptions& options, bool check);

// Returns tool.recipe of a requantized distribution: how its types were chosen, and from what.
std::string RequantizedRecipe(const std::string& own, const std::string& before);

// Returns the files that requantizing a distribution with the files `before` would give, made from
// the sources of `before`. `manifest` has the model and the plan.
Result<WritePlan> RequantizeInMemory(const Manifest& manifest,
                                     const std::vector<OutputFile>& before,
                                     const WriteOptions& options);

}  // namespace moepack::manifest
