// What families with Mamba-2 layers have in common.
#pragma once

#include <string>

#include "libshard/convert/hf_family.h"
#include "libshard/families/families.h"

namespace moepack {

// llama.cpp's converter writes this for all models with Mamba layers, whose attention has no
// positions.
inline constexpr uint32_t kMambaContext = 1u << 20;

// Rows of the tensors below `from` ("layers.{L}.mixer."), all optional.
void AddMambaRows(HfFamily& family, const std::string& from);
// Adds ssm.*. kUnsupported for a time step that the runtime would not clamp, and for another
// activation.
Status AddMambaKeys(const HfConfig& config, ArchKeys& keys);
// HfFamily::heads: the groups of which each has a norm of its own.
Status ReadMambaGroups(const HfConfig& config, HeadShape& shape);
// The names of the tensors that the runtime requires in Mamba layers, after "blk.N.".
inline constexpr const char* kMambaNames[] = {
    "ssm_in.weight", "ssm_conv1d.weight", "ssm_dt.bias",   "ssm_a",
    "ssm_d",         "ssm_norm.weight",   "ssm_out.weight"};

// Reads ssm.* into spec.mamba.
void ReadMamba(SpecKeys& keys, ModelSpec& spec);

}  // namespace moepack
