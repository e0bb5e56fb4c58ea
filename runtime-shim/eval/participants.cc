#include "runtime-shim/eval/participants.h"

#include <algorithm>
#include <utility>

namespace moepack::runtime {
namespace {

// Fewer tokens than this are not worth running more groups in the pass, as each weight is decoded
// for every batch.
constexpr uint32_t kLeastChunk = 16;

Participant Opened(const std::string& label, const Model& model, LayerExperts eligible,
                   const EvalOptions& options, uint32_t EvalOptions::*batch,
                   std::optional<uint32_t> group) {
  const auto open = [&model, eligible, &options, batch, group](RoutingObserver* observer) {
    SessionOptions opening{options.context, options.*batch, observer, options.logit_bytes};
    opening.ran = options.ran;
    opening.group = group;
    return Session::Open(model, eligible, opening);
  };
  return {label, std::move(eligible), open, group};
}

// The most groups whose chunks are worth it.
uint32_t GroupsThatFit(const SessionCosts& own, uint32_t groups, uint32_t context, uint64_t bytes) {
  const uint32_t chunk = std::min(kLeastChunk, context);
  while (groups > 1 && FitBytes(own, groups + 1, context, bytes).chunk < chunk) --groups;
  return groups;
}

}  // namespace

Participant Participate(const std::string& label, const Model& model, LayerExperts eligible,
                        const EvalOptions& options, std::optional<uint32_t> group) {
  return Opened(label, model, std::move(eligible), options, &EvalOptions::own_batch, group);
}

Participant ParticipateAsReference(const Model& model, LayerExperts eligible,
                                   const EvalOptions& options) {
  return Opened("reference", model, std::move(eligible), options, &EvalOptions::reference_batch,
                std::nullopt);
}

Status FitEvaluation(const Model& own, uint32_t groups, const Model* reference,
                     const MemoryBound& bound, EvalOptions& options) {
  const uint32_t context = options.context;
  const SessionCosts costs = CostsOf(own);
  std::optional<SessionCosts> held;
  if (reference != nullptr) {
    held = CostsOf(*reference);
    // The reference's logits of a chunk stay until all groups are compared with them.
    held->token += held->logits;
  }
  const uint64_t least_own = LeastBytes(costs, 1 + std::min(groups, 1u), context);
  const uint64_t least_held = held ? LeastBytes(*held, 1, context) : 0;
  const uint64_t least = least_own + least_held;
  SHARD_CHECK(CheckBound(own, least, context, bound));
  const uint64_t bytes = std::max(least, std::min(bound.wanted, bound.limit));
  // The reference and the model under test get half each, unless one of them needs more.
  const uint64_t for_held = held ? std::clamp(bytes / 2, least_held, bytes - least_own) : 0;
  options.groups_at_once = GroupsThatFit(costs, groups, context, bytes - for_held);
  const uint32_t runs = options.groups_at_once + 1;
  options.windows = std::max(1u, kMostTogether / std::max(1u, runs * context));
  Together fit;
  while (true) {
    fit = FitBytes(costs, runs * options.windows, context, bytes - for_held);
    if (held) {
      const Together other = FitBytes(*held, options.windows, context, for_held);
      fit.chunk = std::min(fit.chunk, other.chunk);
      fit.logit_bytes = std::min(fit.logit_bytes, other.logit_bytes);
    }
    // Several windows only where all of them run whole.
    if (options.windows == 1 || fit.chunk == context) break;
    --options.windows;
  }
  options.chunk = fit.chunk;
  options.own_batch = fit.batch();
  options.reference_batch = fit.chunk * options.windows;
  options.logit_bytes = fit.logit_bytes;
  return Ok();
}

}  // namespace moepack::runtime
