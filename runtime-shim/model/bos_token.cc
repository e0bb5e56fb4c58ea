#include "runtime-shim/model/bos_token.h"

namespace moepack::runtime {

std::optional<uint32_t> BosToken(const GgufMetadata& metadata) {
  const std::optional<uint64_t> id = metadata.Uint("tokenizer.ggml.bos_token_id");
  if (!id || *id > UINT32_MAX) return std::nullopt;
  return static_cast<uint32_t>(*id);
}

}  // namespace moepack::runtime
