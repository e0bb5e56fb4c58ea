#include "libshard/model/router_digest.h"

#include <algorithm>
#include <map>
#include <span>
#include <vector>

#include "libshard/base/digest.h"

namespace moepack {
namespace {

bool IsRouterMatrix(const ModelTensor& tensor) {
  return tensor.part == Part::kRouter && tensor.rule->role == "router" && tensor.layer &&
         !tensor.mtp && tensor.leaf != "bias" && !tensor.rule->pattern.ends_with(".bias");
}

bool IsPlainFloat(const TensorEntry& entry) {
  return entry.format != nullptr && entry.format->block_values == 1 &&
         (entry.dtype == "F32" || entry.dtype == "F16" || entry.dtype == "BF16");
}

Result<std::vector<float>> ReadValues(const SourceFile& file, const TensorEntry& entry) {
  SHARD_TRY(const ByteSourcePtr source, OpenUnchanged(file));
  std::vector<std::byte> bytes(entry.bytes);
  SHARD_CHECK(source->ReadAt(entry.offset, bytes));
  std::vector<float> values(entry.Elements());
  entry.format->decode(bytes, values);
  return values;
}

}  // namespace

Result<std::string> RouterDigest(const MoeModel& model) {
  const Checkpoint& checkpoint = model.checkpoint();
  if (checkpoint.names_only() || checkpoint.promised()) return std::string();
  std::map<uint32_t, const TensorEntry*> routers;
  for (const ModelTensor& tensor : model.tensors()) {
    if (!IsRouterMatrix(tensor)) continue;
    const TensorEntry& entry = model.entry(tensor);
    if (!IsPlainFloat(entry) || checkpoint.files()[entry.file].far) return std::string();
    if (!routers.emplace(*tensor.layer, &entry).second) return std::string();
  }
  for (const MoeLayer& layer : model.layers()) {
    if (!layer.mtp && !routers.contains(layer.layer)) return std::string();
  }
  Xxh3 digest;
  for (const auto& [layer, entry] : routers) {
    SHARD_TRY(const std::vector<float> values, ReadValues(checkpoint.files()[entry->file], *entry));
    digest.Update(std::as_bytes(std::span(values)));
  }
  return digest.Hex();
}

}  // namespace moepack
