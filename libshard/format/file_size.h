// Computes the exact size of files, for code that asks about many that are not written. The
// writers' own texts are counted: safetensors.cc and gguf_write.cc.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "libshard/format/gguf_metadata.h"
#include "libshard/format/tensor.h"

namespace moepack {

// The file whose header SafetensorsHeaderWriter writes.
class SafetensorsFileSize {
 public:
  explicit SafetensorsFileSize(const std::map<std::string, std::string>& metadata);
  // The size of the tensor's text in any header, without its two offsets.
  static uint64_t EntryBytes(const TensorEntry& tensor);
  void Add(uint64_t entry_bytes, uint64_t tensor_bytes);
  uint64_t Finish(uint64_t data_start_residue = 0) const;

 private:
  uint64_t header_ = 0;   // bytes so far
  uint64_t next_ = 0;     // offset of the next tensor
  uint64_t digits_ = 1;   // of `next_`
  bool follows_ = false;  // the next entry needs a comma before it
};

// The file that LayOutGguf describes.
class GgufFileSize {
 public:
  GgufFileSize(const GgufMetadata& metadata, uint64_t alignment);
  // The size of the tensor's entry in any header.
  static uint64_t EntryBytes(const TensorEntry& tensor);
  void Add(uint64_t entry_bytes, uint64_t tensor_bytes);
  uint64_t Finish() const;

 private:
  uint64_t alignment_;
  uint64_t header_;    // bytes so far, without padding
  uint64_t data_ = 0;  // with padding
};

}  // namespace moepack
