#include "libshard/families/minimax.h"

namespace moepack {

Status AddMinimaxRotation(const HfConfig& config, const HfShape& shape, ArchKeys& keys) {
  SHARD_TRY(std::optional<uint32_t> size, config.FindU32({"rotary_dim"}));
  if (!size) {
    SHARD_TRY(size, RotatedPart(config, shape.head_size));
  }
  keys.U32("rope.dimension_count", *size);
  return Ok();
}

}  // namespace moepack
