#include "libshard/convert/gguf_used_experts.h"

#include <algorithm>
#include <vector>

#include "libshard/base/text/text.h"
#include "libshard/model/gguf_architectures.h"

namespace moepack {

Status KeepExpertWidth(const std::string& where, uint64_t used, GgufMetadata& metadata) {
  const std::string architecture = metadata.Architecture();
  const GgufArchitecture* const row = FindArchitecture(architecture);
  const std::string key = Cat(architecture, ".expert_feed_forward_length");
  const bool given = metadata.Find(key) != nullptr, derives = row != nullptr && row->derives_width;
  if (given ? metadata.Uint(key) != 0u : !derives) return Ok();
  const auto dense = metadata.Uint(Cat(architecture, ".feed_forward_length"));
  if (!dense || used == 0 || *dense % used != 0 || *dense > UINT32_MAX)
    return Error{Code::kUnsupported,
                 Cat(where, ": key ", Quoted(key),
                     ": expected the width of an expert, found none and no way to work it out")};
  metadata.Set(key, GgufValue::U32(static_cast<uint32_t>(*dense / used)));
  return Ok();
}

Status SetUsedExperts(const std::string& where, uint32_t top_k, GgufMetadata& metadata) {
  const std::string key = Cat(metadata.Architecture(), ".expert_used_count");
  const GgufValue* const value = metadata.Find(key);
  const auto used = value == nullptr ? std::nullopt : value->AsUints();
  if (!used || used->empty())
    return Error{Code::kCorrupt,
                 Cat(where, ": key ", Quoted(key), ": expected a number or one per layer, found ",
                     value == nullptr ? "none" : GgufTypeName(value->type))};
  const bool list = value->type == GgufType::kArray;
  SHARD_CHECK(KeepExpertWidth(where, used->front(), metadata));
  if (!list) {
    metadata.Set(key, GgufValue::U32(top_k));
    return Ok();
  }
  std::vector<uint32_t> layers;
  for (const uint64_t one : *used) layers.push_back(one == 0 ? 0 : top_k);
  metadata.Set(key, GgufValue::U32s(layers));
  return Ok();
}

}  // namespace moepack
