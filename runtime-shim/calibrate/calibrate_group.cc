// Calibrator::OpenGroup: the refitted experts of a group, encoded for its node.
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/refit/node_top_k.h"
#include "runtime-shim/calibrate/calibrate.h"
#include "runtime-shim/calibrate/layer_experts.h"
#include "runtime-shim/calibrate/two_streams.h"
#include "runtime-shim/refit/node_experts.h"

namespace moepack::runtime {
namespace {

Status CheckTopKOf(const CalibrateGroup& group, const std::string& store, uint32_t top_k) {
  for (const auto& [layer, count] : group.plan.layers) {
    const size_t eligible = Eligible(group.plan, group.group, layer).size();
    if (top_k <= eligible) continue;
    return Error{Code::kCorrupt, Cat(Shown(store), ": parameter ", kNodeTopK, ": expected at most ",
                                     eligible, ", the experts of group ", group.group, " in layer ",
                                     layer, ", found ", top_k)};
  }
  return Ok();
}

// Up to the experts, and behind them.
constexpr uint64_t kPassesOfGroup = 2;

class GroupRun final : public Calibrator {
 public:
  GroupRun(const CalibrateGroup& group, uint32_t top_k, std::unique_ptr<TwoStreams> streams)
      : group_(group), top_k_(top_k), streams_(std::move(streams)) {}

  uint32_t layers() const override { return streams_->spec().layers; }
  const Calibration& text() const override { return streams_->text(); }

  Result<EncodedLayer> Encode(uint32_t layer) override {
    EncodedLayer encoded;
    encoded.outcome.layer = layer;
    SHARD_CHECK(Run(layer, encoded, /*known=*/false));
    return encoded;
  }

  Status Replay(uint32_t layer, const EncodedLayer& encoded) override {
    EncodedLayer copy = encoded;
    return Run(layer, copy, /*known=*/true);
  }

 private:
  Status Run(uint32_t layer, EncodedLayer& encoded, bool known) {
    SHARD_TRY(EncodedTensors whole, group_.whole(layer));
    if (layer == 0) SHARD_CHECK(streams_->StartFrom(whole));
    SHARD_CHECK(streams_->Open(layer));
    SHARD_CHECK(streams_->PutTrunk(layer, whole));
    if (!streams_->has_experts()) return streams_->RunDense();
    SHARD_CHECK(streams_->RunToExperts());
    ExpertLayer experts = streams_->Experts(layer);
    SHARD_TRY(NodeOfLayer node, NodeOf(layer, experts.source));
    node.whole = std::move(whole);
    experts.node = &node;
    SHARD_CHECK(EncodeExperts(experts, known, encoded.outcome, encoded.tensors));
    return streams_->AddExperts();
  }

  Result<NodeOfLayer> NodeOf(uint32_t layer, const SourceLayers& source) const {
    NodeOfLayer node;
    node.top_k = top_k_;
    SHARD_TRY(node.experts, ReadSourceExperts(streams_->model().weights(), source.sets(), layer,
                                              Eligible(group_.plan, group_.group, layer)));
    node.experts.group = group_.group;
    SHARD_CHECK(PutStored(group_.refit, node.experts));
    const RefitOutcome* const outcome = group_.refit.record().Find(layer, group_.group);
    if (outcome != nullptr) node.refitted = outcome->expert_ids;
    return node;
  }

  const CalibrateGroup& group_;
  uint32_t top_k_;
  std::unique_ptr<TwoStreams> streams_;
};

}  // namespace

Result<std::unique_ptr<Calibrator>> Calibrator::OpenGroup(const CalibrateInput& input,
                                                          const CalibrateGroup& group,
                                                          const CalibrateOptions& options,
                                                          OnProgress progress) {
  const std::string store = group.refit.directory().string();
  SHARD_TRY(const uint32_t top_k, NodeTopK(store, group.refit.record()));
  SHARD_CHECK(CheckTopKOf(group, store, top_k));
  SHARD_TRY(std::unique_ptr<TwoStreams> streams,
            TwoStreams::Make(input, options, kPassesOfGroup, std::move(progress)));
  return std::unique_ptr<Calibrator>(std::make_unique<GroupRun>(group, top_k, std::move(streams)));
}

}  // namespace moepack::runtime
