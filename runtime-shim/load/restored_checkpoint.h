// Presents a safetensors distribution as the checkpoint that it was cut from, so that it is read
// and converted like one. Every tensor has its name and its whole shape, and the bytes of experts
// are found in the requested part. It exists only in memory, as headers and a map of where the
// parts hold the bytes.
#pragma once

#include <deque>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/model/model.h"
#include "runtime-shim/load/opened_parts.h"
#include "runtime-shim/load/part_selection.h"
#include "runtime-shim/load/source_bytes.h"

namespace moepack::runtime {

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
