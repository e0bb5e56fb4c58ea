// What the layouts of a node share: the distribution's files that it needs, opened as sources, and
// experts of group and overlay merged into one tensor.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "libshard/checkpoint.h"
#include "libshard/pack.h"
#include "libshard/result.h"
#include "libshard/slice.h"
#include "manifest/manifest.h"
#include "manifest/open_bundle.h"

namespace manifest {

struct NodeFiles {
  std::vector<shard::SourceFile> sources;
  std::vector<PartTensor> trunk, experts;        // of the trunk; of group and overlay
  std::vector<const BundleRecord*> trunk_files;  // in order
};

// Opens trunk, group and overlay.
// kNotFound for a part that is not there. Borrows the manifest.
Result<NodeFiles> OpenNodeFiles(const std::string& distribution, const Manifest& manifest,
                                uint32_t group);

// Reads group and overlay once and compares their SHA-256 with the manifest (kMismatch): experts
// that are merged have no digest of their own.
Status CheckExpertFiles(const std::string& distribution, const Manifest& manifest, uint32_t group);

// How many experts each router may pick from, which must be the same in all layers (kUnsupported).
Result<uint32_t> EligibleCount(const std::string& distribution, const shard::Plan& plan,
                               uint32_t group);

// One tensor with the experts `ids` along axis 0, taken from `parts`: tensors of one name in group
// and overlay. kMismatch when they are not alike or hold too few, kUnsupported when one has another
// type, which a merged tensor cannot have.
Result<shard::OutputTensor> MergeExperts(const std::string& distribution,
                                         std::span<const PartTensor* const> parts,
                                         const shard::ExpertIds& ids);

// Tensors that are copied whole must have the digests that the manifest promises: `expected` has
// those by output tensor (kMismatch).
Status CheckCopied(const std::vector<shard::OutputFile>& files,
                   const std::vector<shard::FileDigests>& found,
                   const std::map<std::string, std::string>& expected,
                   const std::vector<shard::SourceFile>& sources);

// moepack_node.json: what the node is part of, and which expert of the model each of its ids stands
// for: position i of a layer's list is id i.
std::string NodeText(const Manifest& manifest, uint32_t group);

}  // namespace manifest
