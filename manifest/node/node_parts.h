// Lays out the weight files of a node as ranges of a distribution's files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/checkpoint.h"
#include "libshard/model/family.h"
#include "libshard/pack/slice.h"
#include "manifest/document/manifest.h"
#include "manifest/write/open_bundle.h"

namespace moepack::manifest {

struct NodeParts {
  std::vector<SourceFile> sources;             // the distribution's files that the node needs
  std::vector<OutputFile> files;               // trunk and experts
  std::map<std::string, std::string> digests;  // output tensor -> XXH3-128, for those copied whole
  std::vector<PartTensor> cut;  // tensors of which only some experts are taken; see CheckCutTensors
  uint32_t expert_count = 0;    // eligible per layer
};

// `matcher` belongs to the model's family and is borrowed for the call. Each file's own header is
// compared with the manifest, which must outlive the result.
Result<NodeParts> CutNode(const SourceTreePtr& distribution, const Manifest& manifest,
                          FamilyMatcher& matcher, uint32_t group);

}  // namespace moepack::manifest
