#include "libshard/model/router_digest.h"

#include <vector>

namespace moepack {
namespace {

// ggml's own types are complete in themselves. Among the plain ones, integers and 8-bit floats are
// scaled by other tensors.
bool StandsAlone(const TensorEntry& entry) {
  const quant::Format* format = entry.format;
  if (format == nullptr || format->decode == nullptr || format->ggml_type < 0) return false;
  return format->block_values > 1 || format->safetensors == "F32" || format->safetensors == "F16" ||
         format->safetensors == "BF16";
}

}  // namespace

void RouterHash::Add(const quant::Format& format, std::span<const std::byte> bytes) {
  std::vector<float> values(bytes.size() / format.block_bytes * format.block_values);
  format.decode(bytes, values);
  digest_.Update(std::as_bytes(std::span(values)));
}

bool IsRouterMatrix(const TensorRule& rule, std::string_view leaf) {
  return rule.part == Part::kRouter && rule.role == "router" && LeafOf(rule, leaf) != "bias";
}

Result<std::string> RouterDigest(const RouterTensors& routers) {
  for (const auto& [layer, router] : routers) {
    // A digest that would need requests over the network is left out: it is a check, not a need.
    if (!StandsAlone(router.entry) || router.file.far) return std::string();
  }
  RouterHash digest;
  for (const auto& [layer, router] : routers) {
    SHARD_TRY(const ByteSourcePtr source, OpenUnchanged(router.file));
    std::vector<std::byte> bytes(router.entry.bytes);
    SHARD_CHECK(source->ReadAt(router.entry.offset, bytes));
    digest.Add(*router.entry.format, bytes);
  }
  return digest.Hex();
}

Result<std::string> RouterDigest(const MoeModel& model) {
  const Checkpoint& checkpoint = model.checkpoint();
  if (checkpoint.names_only() || checkpoint.promised()) return std::string();
  RouterTensors routers;
  for (const ModelTensor& tensor : model.tensors()) {
    // Blocks for multi-token prediction are left out, since conversions may drop them.
    if (tensor.mtp || !tensor.layer || !IsRouterMatrix(*tensor.rule, tensor.leaf)) continue;
    const TensorEntry& entry = model.entry(tensor);
    const bool first =
        routers.emplace(*tensor.layer, RouterTensor{checkpoint.files()[entry.file], entry}).second;
    // With two routers in a layer it is not clear which of them a digest would be of.
    if (!first) return std::string();
  }
  for (const MoeLayer& layer : model.layers()) {
    if (!layer.mtp && !routers.contains(layer.layer)) return std::string();
  }
  return RouterDigest(routers);
}

}  // namespace moepack
