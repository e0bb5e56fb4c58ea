// The largest model, plan and distribution that are accepted. Writers and readers share these
// limits, so each accepts what the other does. All limits are far above any model, and low enough
// that a hostile file cannot claim much memory with a few bytes ("*": "0-4294967295").
#pragma once

#include <cstddef>
#include <cstdint>

namespace moepack {

inline constexpr uint32_t kMaxLayers = 4096;
inline constexpr uint32_t kMaxExpertsPerLayer = 1u << 16;
inline constexpr uint64_t kMaxExpertsInAll = 1u << 18;  // of all layers together
inline constexpr uint64_t kMaxPlanIds = 1u << 26;       // groups times experts of all layers
inline constexpr uint64_t kMaxTensorIds = 1u << 22;     // ids of all tensors together
inline constexpr uint64_t kLeastPartSize = 1u << 12;    // of --max-part-size
inline constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 63) - 1;  // file offsets are signed
inline constexpr size_t kMaxDimensions = 32;                        // of a tensor
inline constexpr size_t kMaxPath = 1024;                            // relative ones
// Objects, arrays, keys and scalars of plan.json: 87,000 groups of one layer, or 128 of 1,000.
inline constexpr size_t kMaxPlanValues = 1u << 18;
// Far above the longest published recipes, which have one rule per tensor.
inline constexpr size_t kMaxTypeRules = 20'000;

}  // namespace moepack
