// The safetensors container: a u64 header length, a JSON header, and the tensors' bytes without
// holes. Format: https://github.com/huggingface/safetensors, section "Format".
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/tensor.h"

namespace moepack {

inline constexpr uint64_t kSafetensorsLengthBytes = 8;  // in front of the header
// The format's own cap on the header.
inline constexpr uint64_t kMaxSafetensorsHeader = 100'000'000;

struct SafetensorsHeader {
  std::vector<TensorEntry>
      tensors;  // in offset order; `file` is 0, offsets are from the start of the file
  std::map<std::string, std::string> metadata;  // `__metadata__`
  uint64_t data_start = 0;                      // 8 + header length
};

// Reads the header of a safetensors file whose first bytes are `file` and whose whole length is
// `file_size`; `file` must hold at least the header. The input may be hostile. On success the
// tensors lie inside the file, leave no holes, do not overlap, end where the file ends, have
// distinct names, and their sizes match shape and type (for types unknown to us only the byte range
// is checked).
Result<SafetensorsHeader> ParseSafetensors(const std::string& path, std::span<const std::byte> file,
                                           uint64_t file_size);

// Writes the bytes before the tensor data: length and JSON header. Tensors are packed without holes
// in the order in which they are added (TensorEntry::offset and ::file are ignored). The header is
// padded with spaces so that the data starts at `data_start_residue` modulo 4096, rounded down to a
// multiple of 8.
class SafetensorsHeaderWriter {
 public:
  explicit SafetensorsHeaderWriter(const std::map<std::string, std::string>& metadata);
  // May be called for all tensors, in order, before the first is added: the text is then as large
  // as it will be from the start. Growing it would leave holes of the header's size in memory.
  void Expect(const TensorEntry& tensor);
  void Add(const TensorEntry& tensor);
  std::string Finish(uint64_t data_start_residue = 0) &&;

 private:
  std::string text_;       // the start of the file; the length is set at the end
  uint64_t next_ = 0;      // offset of the next tensor
  uint64_t expected_ = 0;  // bytes of the tensors' text, at most
};
// Does the same for a list.
std::string BuildSafetensorsHeader(const std::vector<TensorEntry>& tensors,
                                   const std::map<std::string, std::string>& metadata,
                                   uint64_t data_start_residue = 0);

// Computes the exact size of the file whose header SafetensorsHeaderWriter writes, for code that
// asks about many files that are not written.
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

}  // namespace moepack
