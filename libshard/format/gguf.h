// The GGUF container: header with metadata and tensor table, then tensor bytes at aligned offsets.
// Format: https://github.com/ggml-org/ggml, docs/gguf.md; limits are those of ggml's own reader.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/format/gguf_metadata.h"
#include "libshard/format/output_file.h"
#include "libshard/format/tensor.h"

namespace moepack {

inline constexpr size_t kMaxGgufTensorName = 63;
inline constexpr size_t kMaxGgufDimensions = 4;  // of a tensor
// The alignment of a file without the key, and of what we write unless told otherwise. llama.cpp's
// tools copy the key but lay data out at 32, which breaks files with another alignment.
inline constexpr uint64_t kGgufDefaultAlignment = 32;
inline constexpr uint64_t kMaxGgufAlignment = 1u << 21;  // the largest that we write: a huge page
inline constexpr std::string_view kGgufAlignmentKey = "general.alignment";

struct GgufHeader {
  uint32_t version = 3;
  GgufMetadata metadata;
  // In file order; `file` is 0, offsets are from the start of the file, shapes slowest dimension
  // first (the reverse of the file's), dtype is Format::name.
  std::vector<TensorEntry> tensors;
  uint64_t alignment = kGgufDefaultAlignment;
  // aligned, but at most the file's size (a file without data may end right after its header)
  uint64_t data_start = 0;
};

// Reads the header of a GGUF file (version 2 or 3) whose first bytes are `file` and whose whole
// length is `file_size`; `file` must hold at least the header. The input may be hostile. On success
// keys and tensor names are distinct, offsets are sequential and aligned, and the tensors lie
// inside the file. Another byte order is kUnsupported. If `file` does not hold the whole header,
// the result is an error, and `needed`, if given, is set to the number of bytes required to
// continue; otherwise it is set to 0.
Result<GgufHeader> ParseGguf(const std::string& path, std::span<const std::byte> file,
                             uint64_t file_size, uint64_t* needed = nullptr);

// Returns the bytes before the tensor data, padded to `alignment` (a power of two): a version 3
// header with `metadata` (general.alignment is set or, for 32, removed) and the tensors in the
// given order; TensorEntry::format must have a ggml type, ::offset and ::file are ignored.
std::string BuildGgufHeader(GgufMetadata metadata, const std::vector<TensorEntry>& tensors,
                            uint64_t alignment = kGgufDefaultAlignment);

// Sets entry.offset, prefix and size of an output file whose tensors have names, formats, shapes
// and bytes. Every tensor, including the last, is followed by zeros up to the alignment.
void LayOutGguf(OutputFile& file, const GgufMetadata& metadata,
                uint64_t alignment = kGgufDefaultAlignment);

// Computes the exact size of the file that LayOutGguf describes, for code that asks about many
// files that are not written.
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
