#include "runtime-shim/eval/participants.h"

#include <algorithm>
#include <utility>

#include "runtime-shim/session/together.h"

namespace moepack::runtime {

Participant Participate(const std::string& label, const Model& model, LayerExperts eligible,
                        const EvalOptions& options, uint32_t together,
                        std::optional<uint32_t> group) {
  const auto open = [&model, eligible, &options, together, group](RoutingObserver* observer) {
    SessionOptions opening{options.context, options.chunk * together, observer};
    opening.ran = options.ran;
    opening.group = group;
    return Session::Open(model, eligible, opening);
  };
  return {label, std::move(eligible), open, group};
}

uint32_t FitEvalChunk(const Model& own, uint32_t runs, const Model* reference, uint32_t context,
                      uint64_t memory) {
  const uint64_t half = reference != nullptr ? memory / 2 : memory;
  const uint32_t chunk = FitChunk(own, runs, context, half).chunk;
  if (reference == nullptr) return chunk;
  const uint64_t logits = sizeof(float) * uint64_t{std::max(reference->vocabulary(), 1u)};
  const uint64_t cache = context * reference->bytes_per_position();
  const uint64_t left = memory / 2 > cache ? memory / 2 - cache : 0;
  return static_cast<uint32_t>(
      std::clamp<uint64_t>(left / (logits + reference->bytes_per_token()), 1, chunk));
}

}  // namespace moepack::runtime
