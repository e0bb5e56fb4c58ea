// Presents a safetensors distribution as the checkpoint that it was cut from, so that it is read
// and converted like one. Every tensor has its name and its whole shape, and the bytes of experts
// are found in the requested part. It exists only in memory, as headers and a map of where the
// parts hold the bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/tensor.h"
#include "libshard/model/family.h"
#include "libshard/model/model.h"
#include "runtime-shim/load/opened_parts.h"
#include "runtime-shim/load/part_selection.h"
#include "runtime-shim/load/source_bytes.h"

namespace moepack::runtime {

// Reconstructs the tensors that a checkpoint had before it was split, from the names and shapes in
// the parts.

// A tensor of the whole model. `file` of the entry counts restored files, and `offset` is from the
// start of one.
struct WholeTensor {
  TensorEntry entry;
  ByteView sample;            // its bytes, or those of a neighbour of the same size
  uint64_t expert_count = 0;  // along axis 0, if it is packed by expert
};

// A restored file. It has the tensors of one part that no earlier part has, and the part's name, so
// that messages about a tensor name a file that exists.
struct WholeFile {
  std::string name;
  std::string header;
  uint64_t size = 0;
};

// A tensor that the manifest lists, in a part that may not be loaded.
struct ListedTensor {
  const manifest::TensorRecord* record = nullptr;
  std::string file;
};

// Collects tensors part by part.
class WholeTensors {
 public:
  // `matcher` belongs to the model's family, and `path` names the distribution in errors. Borrows
  // both.
  WholeTensors(const std::string& path, const LayerCounts& layers, FamilyMatcher& matcher)
      : path_(path), layers_(layers), matcher_(matcher) {}

  // Adds the tensors of a part. kMismatch if two parts have a tensor with different types or
  // shapes, kUnsupported for experts along an inner axis.
  Status Add(const OpenedPart& part);
  // Adds the experts that no part has, in layers of which a part has some. An expert that is listed
  // has the tensors and shapes of the list, because the experts of a layer may be stored in several
  // forms. One that is not listed, or whose form no part has, is like the first of its neighbours.
  Status AddAbsent(const std::vector<ListedTensor>& listed);
  // Returns files with all tensors, and sets their offsets. kCorrupt if sizes overflow.
  Result<std::vector<WholeFile>> LayOut();

  const std::vector<WholeTensor>& tensors() const { return tensors_; }
  // Records where the bytes of small tensors are that conversion reads early, such as the sizes of
  // a packed matrix. Absent experts get those of their neighbours.
  void LocateSmall(SourceBytes& bytes) const;
  // Records where a part has the bytes of the restored files. REQUIRES: the part was added.
  void Locate(const OpenedPart& part, SourceBytes& bytes) const;

 private:
  Result<WholeTensor> Restore(const OpenedPart& part, const manifest::PartTensor& tensor);
  Status AddTensor(const std::string& file, WholeTensor tensor);
  using Experts = std::map<uint32_t, std::vector<size_t>>;  // id -> tensors_
  using ListedExpert = std::vector<const ListedTensor*>;
  std::map<uint32_t, Experts> ExpertsByLayer();
  // False, with nothing added, if the list is empty or no part has a sample of a small tensor.
  // `kinds` has a tensor of each kind, by its name with expert 0.
  Result<bool> AddListed(const ListedExpert& expert, const std::map<std::string, size_t>& kinds);
  Status AddLike(const std::vector<size_t>& neighbour, uint32_t id);
  uint32_t NumberOf(const std::string& file);

  const std::string& path_;
  const LayerCounts& layers_;
  FamilyMatcher& matcher_;
  std::vector<WholeTensor> tensors_;
  std::map<std::string, size_t> index_;           // name -> tensors_
  std::vector<std::string> files_;                // every one has a tensor
  std::map<std::string, uint32_t> file_numbers_;  // name -> files_
};

class RestoredCheckpoint {
 public:
  // Restores the checkpoint. Experts that no loaded part holds get the shape of their neighbours
  // and no bytes, except for small tensors that describe how others are packed
  // (WholeTensors::LocateSmall). kUnsupported for experts along an inner axis. Borrows the split.
  static Result<RestoredCheckpoint> Open(const Split& split, const ModelOptions& options);

  const GgufModel& gguf() const { return gguf_; }
  const std::vector<std::string>& notes() const { return notes_; }
  const std::vector<OpenedPart>& trunk() const { return trunk_; }
  // The files of set i of the selection.
  const std::vector<OpenedPart>& files(size_t i) const { return sets_[i]; }
  // The bytes of the trunk, and of the experts that set i holds.
  const SourceBytes& bytes(size_t i) const { return bytes_[i]; }
  const SourceBytes& trunk_bytes() const { return trunk_bytes_; }

 private:
  std::vector<OpenedPart> trunk_;
  std::vector<std::vector<OpenedPart>> sets_;
  SourceBytes trunk_bytes_;
  std::deque<SourceBytes> bytes_;
  std::unique_ptr<MoeModel> model_;  // readers of the view borrow it
  GgufModel gguf_;
  std::vector<std::string> notes_;

  friend class CheckpointRestorer;
};

}  // namespace moepack::runtime
