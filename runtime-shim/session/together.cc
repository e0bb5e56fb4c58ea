#include "runtime-shim/session/together.h"

#include <algorithm>

namespace moepack::runtime {

Together FitChunk(const Model& model, uint32_t sessions, uint32_t context, uint64_t memory) {
  const uint64_t caches = uint64_t{sessions} * context * model.bytes_per_position();
  const uint64_t left = memory > caches ? memory - caches : 0;
  const uint64_t tokens =
      std::min<uint64_t>(left / std::max<uint64_t>(1, model.bytes_per_token()), kMostTogether);
  const uint64_t chunk = std::clamp<uint64_t>(tokens / sessions, 1, context);
  return {sessions, static_cast<uint32_t>(chunk)};
}

Together FitSessions(const Model& model, uint32_t context, uint64_t memory) {
  const uint64_t one = context * (model.bytes_per_position() + model.bytes_per_token());
  const uint64_t fit = std::min<uint64_t>(memory / std::max<uint64_t>(1, one),
                                          kMostTogether / std::max(1u, context));
  return FitChunk(model, static_cast<uint32_t>(std::max<uint64_t>(1, fit)), context, memory);
}

}  // namespace moepack::runtime
