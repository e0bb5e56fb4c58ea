// A GGUF distribution with other types: the same plan and files, every tensor encoded anew.
#pragma once

#include <string>

#include "libshard/pack.h"
#include "libshard/quantize.h"
#include "libshard/result.h"
#include "manifest/bundle.h"

namespace manifest {

// Uses of WriteOptions: gguf (required), pack, force, command, notes. Types are chosen as for the
// whole model. kUnsupported for safetensors bundles, which keep their source's bytes, and for
// distributions that lack parts (the types of what is not there cannot be chosen).
Result<WritePlan> PlanRequantized(const std::string& distribution, const WriteOptions& options);
Result<WriteReport> RequantizeDistribution(const std::string& distribution, const std::string& out,
                                           const WriteOptions& options);

}  // namespace manifest
