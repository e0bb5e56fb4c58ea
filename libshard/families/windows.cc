#include "libshard/families/windows.h"

#include "libshard/base/text/text.h"
#include "libshard/convert/block_kinds.h"
#include "libshard/model/layer_fields.h"

namespace moepack {

Result<std::vector<bool>> ReadWindowed(const HfConfig& config, const HfShape& shape,
                                       ConfigKeys field) {
  SHARD_TRY(const std::vector<LayerKind> kinds,
            ReadBlockKinds(config, shape, field, {LayerKind::kWindow, LayerKind::kFull}));
  std::vector<bool> windowed;
  for (const LayerKind kind : kinds) windowed.push_back(kind == LayerKind::kWindow);
  return windowed;
}

std::vector<int32_t> ByWindow(const std::vector<bool>& windowed, uint32_t window, uint32_t full) {
  std::vector<int32_t> numbers;
  for (const bool narrow : windowed) {
    numbers.push_back(static_cast<int32_t>(narrow ? window : full));
  }
  return numbers;
}

Status AddWindowKey(const HfConfig& config, ArchKeys& keys) {
  SHARD_TRY(const uint32_t window, config.U32(fields::kWindow));
  keys.U32("attention.sliding_window", window);
  return Ok();
}

Status CheckKeyHeads(const HfConfig& config, ConfigKeys field, uint32_t heads, uint32_t key_heads) {
  if (key_heads > 0 && heads % key_heads == 0) return Ok();
  return config.Wrong(*config.Find(field), Cat("a divisor of the ", heads, " attention heads"));
}

}  // namespace moepack
