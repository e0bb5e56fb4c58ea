// GroveMoE's chunk experts, after the experts. As in llama.cpp's graph, their input is the experts'
// sum.
#include "runtime-shim/model/chunks.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {

Status Forward::AddChunks(std::span<const Selection> chosen) {
  const uint32_t expert_count = spec_.layer[layer_].router.expert_count;
  std::vector<ExpertRows> picked(weights_->chunks.size());
  uint32_t row = 0;
  for (const Segment& segment : segments_) {
    const ExpertIds& ids = moepack::IdsOf(segment.eligible->ids, layer_);
    for (uint32_t i = 0; i < segment.count(); ++i, ++row) {
      const std::span<const float> logits =
          std::span(router_logits_).subspan(size_t{row} * expert_count, expert_count);
      const Selection chunks = ChunksOf(logits, ids, chosen[row], spec_.chunks.experts);
      for (size_t rank = 0; rank < chunks.ids.size(); ++rank) {
        ExpertRows& chunk = picked[chunks.ids[rank]];
        chunk.weights = &weights_->chunks[chunks.ids[rank]];
        chunk.rows.push_back(row);
        chunk.gates.push_back(chunks.weights[rank]);
      }
    }
  }
  std::erase_if(picked, [](const ExpertRows& chunk) { return chunk.rows.empty(); });
  const Rows sum = ExpertSums(), added = Now(scratch_.beside);
  const ExpertBatch batch = {picked,
                             sum,
                             added,
                             spec_.expert_activation,
                             false,
                             Dense(scratch_.expert_in, spec_.width),
                             Dense(scratch_.expert_out, spec_.width),
                             Now(scratch_.gate),
                             Now(scratch_.up),
                             Dense(scratch_.zeros, spec_.width),
                             scratch_.sizes};
  SHARD_CHECK(executor_.MixExperts(batch, nullptr));
  SHARD_CHECK(Mark("chunk experts", added));
  executor_.Add(sum, added, spec_.chunks.scale);
  return Ok();
}

}  // namespace moepack::runtime
