// Which tensors a verification of a share reads (`verify --sample`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "manifest/document/manifest.h"
#include "manifest/verify/verify_rules.h"

namespace moepack::manifest {

inline constexpr uint32_t kWholeSample = 1000;  // per mille
// Files up to this size are read whole, whatever the share.
inline constexpr uint64_t kAlwaysWholeBytes = 1u << 20;

// True for a bundle of which only a share is read: it is large and has tensors.
bool IsSampled(const BundleRecord* bundle, uint64_t size, const VerifyOptions& options);
// Indexes of the tensors that are read, ascending: chosen by a digest of seed, file and name until
// they make up the share of the tensors' bytes; at least one. Equal seeds choose the same ones on
// every machine, and a larger share adds to them. REQUIRES: IsSampled.
std::vector<size_t> SampledTensors(const BundleRecord& bundle, const VerifyOptions& options);

// Adds a note saying what was read and what was not, if a share was requested.
void NoteSample(const std::vector<CheckedFile>& files, const VerifyOptions& options,
                VerifyReport& report);

}  // namespace moepack::manifest
