// Shared by all layouts of a node: opens the files of the distribution that the node needs, and
// merges experts of group and overlay into one tensor.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/checkpoint.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice.h"
#include "manifest/document/manifest.h"
#include "manifest/document/node_record.h"
#include "manifest/node/assemble.h"
#include "manifest/write/open_bundle.h"
#include "manifest/write/stated_file.h"

namespace moepack::manifest {

struct NodeFiles {
  std::vector<SourceFile> sources;
  std::vector<PartTensor> trunk, experts;        // of the trunk; of group and overlay
  std::vector<const BundleRecord*> trunk_files;  // in order
};

// Opens trunk, group and overlay. kNotFound for a missing part. Borrows the manifest. REQUIRES:
// UseOverlay has left one version of the overlay, or none.
Result<NodeFiles> OpenNodeFiles(const SourceTreePtr& distribution, const Manifest& manifest,
                                uint32_t group);

// Returns the files of group and overlay. They are checked whole, because merged experts have no
// digest in the manifest.
std::vector<StatedFile> ExpertFiles(const SourceTreePtr& distribution, const Manifest& manifest,
                                    uint32_t group);
// Checks tensors of which only some experts are taken, by the XXH3-128 of the whole tensor.
Status CheckCutTensors(const std::vector<PartTensor>& tensors,
                       const std::vector<SourceFile>& sources, const PackOptions& options);

// Returns how many experts each router may pick from; kUnsupported if layers differ.
Result<uint32_t> EligibleCount(const std::string& distribution, const Plan& plan, uint32_t group);

// Makes one tensor with the experts `ids` along axis 0 from `parts`, the tensors of one name in
// group and overlay. kMismatch if their shapes differ or experts are missing, kUnsupported if their
// types differ, because a merged tensor has one type.
Result<OutputTensor> MergeExperts(const std::string& distribution,
                                  std::span<const PartTensor* const> parts, const ExpertIds& ids);

// Compares tensors that were copied whole with the manifest's digests; `expected` has them by
// output tensor (kMismatch).
Status CheckCopied(const std::vector<OutputFile>& files, const std::vector<FileDigests>& found,
                   const std::map<std::string, std::string>& expected,
                   const std::vector<SourceFile>& sources);

// Returns the node file of `record` with `files` after reading it back (kUnsupported, with the
// reader's reason). Unknown digests are written as zeros, so that the size is known early.
Result<std::string> NodeText(NodeRecord record, const std::vector<AssembleReport::File>& files,
                             const std::map<std::string, std::string>& sha256_of);

}  // namespace moepack::manifest
