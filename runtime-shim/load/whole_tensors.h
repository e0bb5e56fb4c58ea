// The tensors that a checkpoint had before it was split, from the names and shapes in the parts.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "libshard/base/expert_ids.h"
#include "libshard/base/result.h"
#include "libshard/format/tensor.h"
#include "libshard/model/family.h"
#include "runtime-shim/load/opened_parts.h"

namespace moepack::runtime {

// A tensor of the whole model. `offset` of the entry is from the start of the restored file.
struct WholeTensor {
  TensorEntry entry;
  ByteView sample;       // bytes of it, or of a neighbour that is as large
  uint64_t experts = 0;  // along axis 0, if it is packed by expert
};

// Collects tensors part by part.
class WholeTensors {
 public:
  // `matcher` is that of the model's family, `path` names the distribution in errors; both are
  // borrowed.
  WholeTensors(const std::string& path, const LayerCounts& layers, FamilyMatcher& matcher)
      : path_(path), layers_(layers), matcher_(matcher) {}

  // kMismatch for a tensor that two parts have with different types or shapes, kUnsupported for
  // experts along an inner axis.
  Status Add(const OpenedPart& part);
  // The experts that no part has, like their neighbours.
  Status AddAbsent();
  // The header of a file with all of them; sets their offsets. kCorrupt when sizes overflow.
  Result<std::string> LayOut();

  const std::vector<WholeTensor>& tensors() const { return tensors_; }
  uint64_t file_size() const { return file_size_; }
  // Where the bytes of small tensors lie, which conversion reads itself: the lengths of a packed
  // matrix. Those of absent experts are their neighbours'.
  void LocateSmall(SourceBytes& bytes) const;
  // Where the tensors of a part lie in the restored file. REQUIRES: the part was added.
  void Locate(const OpenedPart& part, SourceBytes& bytes) const;

 private:
  Result<WholeTensor> Restore(const OpenedPart& part, const manifest::PartTensor& tensor);
  Status AddTensor(const std::string& where, WholeTensor tensor);

  const std::string& path_;
  const LayerCounts& layers_;
  FamilyMatcher& matcher_;
  std::vector<WholeTensor> tensors_;
  std::map<std::string, size_t> index_;  // name -> tensors_
  uint64_t file_size_ = 0;
};

}  // namespace moepack::runtime
