#include "libshard/base/bytes.h"
#include "libshard/format/gguf.h"

namespace moepack {
namespace {

constexpr uint32_t kVersion = 3;

void AppendTensor(std::string& out, const TensorEntry& tensor, uint64_t offset) {
  AppendGgufString(out, tensor.name);
  AppendLe<uint32_t>(out, static_cast<uint32_t>(tensor.shape.size()));
  for (auto at = tensor.shape.rbegin(); at != tensor.shape.rend(); ++at)
    AppendLe<uint64_t>(out, *at);
  AppendLe<uint32_t>(out, static_cast<uint32_t>(tensor.format->ggml_type));
  AppendLe<uint64_t>(out, offset);
}

}  // namespace

std::string BuildGgufHeader(GgufMetadata metadata, const std::vector<TensorEntry>& tensors,
                            uint64_t alignment) {
  if (alignment == kGgufDefaultAlignment) {
    metadata.Remove(kGgufAlignmentKey);
  } else {
    metadata.Set(kGgufAlignmentKey, GgufValue::U32(static_cast<uint32_t>(alignment)));
  }
  std::string out = "GGUF";
  AppendLe<uint32_t>(out, kVersion);
  AppendLe<uint64_t>(out, tensors.size());
  AppendLe<uint64_t>(out, metadata.entries().size());
  for (const GgufEntry& entry : metadata.entries()) {
    AppendGgufString(out, entry.key);
    AppendLe<uint32_t>(out, static_cast<uint32_t>(entry.value.type));
    out += entry.value.bytes;
  }
  uint64_t offset = 0;
  for (const TensorEntry& tensor : tensors) {
    AppendTensor(out, tensor, offset);
    offset = AlignUp(offset + tensor.bytes, alignment);
  }
  out.resize(AlignUp(out.size(), alignment), '\0');
  return out;
}

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
