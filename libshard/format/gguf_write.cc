#include <utility>

#include "libshard/base/bytes.h"
#include "libshard/format/file_size.h"
#include "libshard/format/gguf.h"

namespace moepack {
namespace {

constexpr uint32_t kVersion = 3;

void AppendTensor(std::string& out, const TensorEntry& tensor, uint64_t offset) {
  AppendGgufString(out, tensor.name);
  AppendLe<uint32_t>(out, static_cast<uint32_t>(tensor.shape.size()));
  // GGUF lists the dimension that is contiguous in memory first.
  for (auto at = tensor.shape.rbegin(); at != tensor.shape.rend(); ++at)
    AppendLe<uint64_t>(out, *at);
  AppendLe<uint32_t>(out, static_cast<uint32_t>(tensor.format->ggml_type));
  AppendLe<uint64_t>(out, offset);
}

// The text before the tensors' entries.
std::string GgufHeaderStart(GgufMetadata metadata, uint64_t tensors, uint64_t alignment) {
  if (alignment == kGgufDefaultAlignment) {
    // A file without the key has the default alignment, so the key would say nothing.
    metadata.Remove(kGgufAlignmentKey);
  } else {
    metadata.Set(kGgufAlignmentKey, GgufValue::U32(static_cast<uint32_t>(alignment)));
  }
  std::string out = "GGUF";
  AppendLe<uint32_t>(out, kVersion);
  AppendLe<uint64_t>(out, tensors);
  AppendLe<uint64_t>(out, metadata.entries().size());
  for (const GgufEntry& entry : metadata.entries()) {
    AppendGgufString(out, entry.key);
    AppendLe<uint32_t>(out, static_cast<uint32_t>(entry.value.type));
    out += entry.value.bytes;
  }
  return out;
}

}  // namespace

std::string BuildGgufHeader(GgufMetadata metadata, const std::vector<TensorEntry>& tensors,
                            uint64_t alignment) {
  std::string out = GgufHeaderStart(std::move(metadata), tensors.size(), alignment);
  uint64_t offset = 0;
  for (const TensorEntry& tensor : tensors) {
    AppendTensor(out, tensor, offset);
    offset = AlignUp(offset + tensor.bytes, alignment);
  }
  out.resize(AlignUp(out.size(), alignment), '\0');
  return out;
}

uint64_t GgufFileSize::EntryBytes(const TensorEntry& tensor) {
  std::string entry;
  AppendTensor(entry, tensor, 0);
  return entry.size();
}

GgufFileSize::GgufFileSize(const GgufMetadata& metadata, uint64_t alignment)
    : alignment_(alignment), header_(GgufHeaderStart(metadata, 0, alignment).size()) {}

void GgufFileSize::Add(uint64_t entry_bytes, uint64_t tensor_bytes) {
  header_ += entry_bytes;
  data_ += AlignUp(tensor_bytes, alignment_);
}

uint64_t GgufFileSize::Finish() const { return AlignUp(header_, alignment_) + data_; }

void LayOutGguf(OutputFile& file, const GgufMetadata& metadata, uint64_t alignment) {
  std::vector<TensorEntry> entries;
  entries.reserve(file.tensors.size());
  for (const OutputTensor& tensor : file.tensors) entries.push_back(tensor.entry);
  file.prefix = BuildGgufHeader(metadata, entries, alignment);
  file.size = file.prefix.size();
  for (OutputTensor& tensor : file.tensors) {
    tensor.entry.offset = file.size;
    file.size = AlignUp(file.size + tensor.entry.bytes, alignment);
  }
}

}  // namespace moepack
