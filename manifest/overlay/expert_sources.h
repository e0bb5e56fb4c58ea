// The experts that the files of a distribution hold, and how a new file is assembled from them.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/family.h"
#include "libshard/pack/slice.h"
#include "libshard/plan/plan.h"
#include "manifest/document/manifest.h"
#include "manifest/write/open_bundle.h"

namespace moepack::manifest {

// A file assembled from experts of several files.
struct GatheredFile {
  OutputFile file;
  std::map<std::string, std::string> digests;  // XXH3-128 of the tensors that are copied whole
  std::vector<PartTensor> cut;  // tensors of which only some experts are taken; see CheckCutTensors
};

class ExpertSources {
 public:
  // `family` classifies the names of tensors, and must outlive this. For GGUF bundles it is
  // GgufFamily().
  ExpertSources(const Manifest& manifest, const Family& family)
      : manifest_(manifest), matcher_(family, manifest.model.layers) {}

  // Adds the experts of a file, whose record must outlive this. The file added first is preferred
  // for what several files hold.
  void Add(OpenedBundle bundle);

  // The experts for which all tensors of their layer exist.
  LayerExperts Held() const;
  // The files, in the order in which they were added; sources of the gathered file are numbered in
  // it.
  const std::vector<SourceFile>& files() const { return files_; }

  // Lays out the bundle of an overlay: layers ascend, explicit experts ascend in each, and the
  // tensors of each are in the order of the files. `alignment` is for GGUF. kMismatch if tensors do
  // not fit each other. REQUIRES: Held() has everything that the overlay holds.
  Result<GatheredFile> LayOut(const OverlayPlan& overlay, uint64_t alignment);

 private:
  struct HeldTensor {
    PartTensor part;
    uint32_t layer = 0;
    std::optional<uint32_t> expert;  // of an explicit tensor
    bool cut = false;                // its experts are along the first axis
    size_t shape = 0;                // number of its name without numbers, by first appearance
  };
  Status AddTensor(const std::vector<const HeldTensor*>& parts, const ExpertIds& ids,
                   GatheredFile& out) const;
  void CopyWhole(const HeldTensor& held, GatheredFile& out) const;

  const Manifest& manifest_;
  FamilyMatcher matcher_;
  std::vector<SourceFile> files_;
  std::deque<HeldTensor> tensors_;
  std::map<std::string, size_t> shapes_;
  std::string model_, architecture_;
};

}  // namespace moepack::manifest
