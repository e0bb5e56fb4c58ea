#include "libshard/convert/block_kinds.h"

#include <algorithm>

#include "libshard/base/text/text.h"
#include "libshard/model/config_fields.h"

namespace moepack {
namespace {

// "linear_attention or full_attention"
std::string NamesOf(std::initializer_list<LayerKind> kinds) {
  std::string names;
  for (const LayerKind* kind = kinds.begin(); kind != kinds.end(); ++kind) {
    const char* before = kind == kinds.begin() ? "" : kind + 1 == kinds.end() ? " or " : ", ";
    names += Cat(before, LayerKindName(*kind));
  }
  return names;
}

}  // namespace

Result<BlockCounts> CountBlocks(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const std::vector<uint32_t> announced, config.FindU32s(fields::kMtpLayers));
  const auto most = std::max_element(announced.begin(), announced.end());
  return BlockCounts{shape.layers, most == announced.end() ? 0 : *most};
}

Result<std::vector<LayerKind>> ReadBlockKinds(const HfConfig& config, const HfShape& shape,
                                              ConfigKeys field,
                                              std::initializer_list<LayerKind> known) {
  SHARD_TRY(const BlockCounts counts, CountBlocks(config, shape));
  ConfigFaults faults;
  SHARD_TRY(const LayerKinds read, ReadLayerKinds(config, counts, faults));
  SHARD_CHECK(CheckFaults(config, faults));
  if (read.field.empty()) return config.Missing(field, "the kind of each layer");
  std::vector<LayerKind> kinds(shape.layers + shape.mtp_layers, LayerKind::kFull);
  for (size_t i = 0; i < std::min(kinds.size(), read.layers.size()); ++i) {
    kinds[i] = read.layers[i].kind;
    if (std::find(known.begin(), known.end(), kinds[i]) != known.end()) continue;
    if (kinds[i] == LayerKind::kOther) {
      return Error{Code::kCorrupt, Cat(config.where(), ": ", read.field, "[", i, "]: expected ",
                                       NamesOf(known), ", found ", Quoted(read.layers[i].words))};
    }
    return CannotHold(config, Cat(read.field, "[", i, "]: expected ", NamesOf(known),
                                  ", the kinds of layers that the runtime has here, found ",
                                  Quoted(read.layers[i].words)));
  }
  return kinds;
}

Status CheckFullAttention(const HfConfig& config, const HfShape& shape) {
  SHARD_TRY(const BlockCounts counts, CountBlocks(config, shape));
  ConfigFaults faults;
  SHARD_TRY(const LayerKinds read, ReadLayerKinds(config, counts, faults));
  SHARD_CHECK(CheckFaults(config, faults));
  for (const NamedKind& layer : read.layers) {
    if (layer.kind == LayerKind::kUnnamed || layer.kind == LayerKind::kFull) continue;
    return CannotHold(config, Cat(read.field, ": expected full attention in every layer, which is ",
                                  "what the runtime computes, found ", Quoted(layer.words)));
  }
  return Ok();
}

}  // namespace moepack
