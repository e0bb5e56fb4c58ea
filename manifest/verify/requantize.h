// Makes a GGUF distribution with other types: the same plan and files, with every tensor encoded
// again.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "libshard/recipe/quantize.h"
#include "manifest/write/bundle.h"

namespace moepack::manifest {

// Uses these WriteOptions: gguf (required), pack, force, command, notes. Types are chosen as for
// the whole model. kUnsupported for safetensors bundles, which keep their source's bytes, and for
// distributions that lack parts (types cannot be chosen for missing tensors).
Result<WritePlan> PlanRequantized(const std::string& distribution, const WriteOptions& options);
Result<WriteReport> RequantizeDistribution(const std::string& distribution, const std::string& out,
                                           const WriteOptions& options);

// What tool.recipe says about a requantized distribution: how its types were chosen, and from what.
std::string RequantizedRecipe(const std::string& own, const std::string& before);

// The files that requantizing a distribution of the files `before` gives, with their bytes made
// from the sources of `before`. `manifest` has the model and the plan.
Result<WritePlan> RequantizeInMemory(const Manifest& manifest,
                                     const std::vector<OutputFile>& before,
                                     const WriteOptions& options);

}  // namespace moepack::manifest
