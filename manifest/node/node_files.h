// What the layouts of a node share: the distribution's files that it needs, opened as sources, and
// experts of group and overlay merged into one tensor.
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

namespace moepack::manifest {

struct NodeFiles {
  std::vector<SourceFile> sources;
  std::vector<PartTensor> trunk, experts;        // of the trunk; of group and overlay
  std::vector<const BundleRecord*> trunk_files;  // in order
};

// Opens trunk, group and overlay.
// kNotFound for a part that is not there. Borrows the manifest.
Result<NodeFiles> OpenNodeFiles(const SourceTreePtr& distribution, const Manifest& manifest,
                                uint32_t group);

// A file and the SHA-256 that the manifest promises. Where a copy is read instead, errors use the
// name of its source.
struct PromisedFile {
  fs::path path;
  uint64_t size = 0;
  std::string sha256;
  fs::path copy = {};
};
// The files of group and overlay; merged experts have no digest of their own.
std::vector<PromisedFile> ExpertFiles(const std::string& distribution, const Manifest& manifest,
                                      uint32_t group);
// Reads each file once, several at a time; kMismatch for the first that is not as promised. Uses
// jobs and progress of the options.
Status CheckFileDigests(const std::vector<PromisedFile>& files, const PackOptions& options);
// The same for tensors of which only some experts are taken: XXH3-128 of the whole tensor.
Status CheckCutTensors(const std::vector<PartTensor>& tensors,
                       const std::vector<SourceFile>& sources, const PackOptions& options);

// How many experts each router may pick from; kUnsupported when layers differ.
Result<uint32_t> EligibleCount(const std::string& distribution, const Plan& plan, uint32_t group);

// One tensor with the experts `ids` along axis 0, taken from `parts`: tensors of one name in group
// and overlay. kMismatch when they are not alike or hold too few, kUnsupported when their types
// differ, because a merged tensor has one type.
Result<OutputTensor> MergeExperts(const std::string& distribution,
                                  std::span<const PartTensor* const> parts, const ExpertIds& ids);

// Tensors that are copied whole must have the digests that the manifest promises; `expected` has
// these by output tensor (kMismatch).
Status CheckCopied(const std::vector<OutputFile>& files, const std::vector<FileDigests>& found,
                   const std::map<std::string, std::string>& expected,
                   const std::vector<SourceFile>& sources);

// The node file of `record` with `files`, read before it is written (kUnsupported, with the
// reader's reason); digests that are not known yet are zeros, so that the size is known early.
Result<std::string> NodeText(NodeRecord record, const std::vector<AssembleReport::File>& files,
                             const std::map<std::string, std::string>& sha256_of);

}  // namespace moepack::manifest
