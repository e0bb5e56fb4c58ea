// A GGUF distribution with other types: the same plan and files, every tensor encoded anew.
#pragma once

#include <string>

#include "libshard/base/result.h"
#include "libshard/pack/pack.h"
#include "libshard/recipe/quantize.h"
#include "manifest/write/bundle.h"

namespace manifest {

// Uses of WriteOptions: gguf (required), pack, force, command, notes. Types are chosen as for the
// whole model. kUnsupported for safetensors bundles, which keep their source's bytes, and for
// distributions that lack parts (the types of what is not there cannot be chosen).
Result<WritePlan> PlanRequantized(const std::string& distribution, const WriteOptions& options);
Result<WriteReport> RequantizeDistribution(const std::string& distribution, const std::string& out,
                                           const WriteOptions& options);

// What tool.recipe says of a requantized distribution: how its types were chosen, and of what.
std::string RequantizedRecipe(const std::string& own, const std::string& before);

// The files that requantizing a distribution of the files `before` gives, with their bytes made of
// the sources of `before`. `manifest` says what they are a distribution of: model and plan.
Result<WritePlan> RequantizeInMemory(const Manifest& manifest,
                                     const std::vector<shard::OutputFile>& before,
                                     const WriteOptions& options);

}  // namespace manifest
