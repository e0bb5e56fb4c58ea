#include "runtime-shim/calibrate/calibrate.h"

#include <algorithm>
#include <utility>

#include "libshard/base/parallel.h"
#include "runtime-shim/calibrate/encode_matrix.h"
#include "runtime-shim/calibrate/layer_experts.h"
#include "runtime-shim/calibrate/two_streams.h"
#include "runtime-shim/session/device_model.h"

namespace moepack::runtime {
namespace {

using Of = TwoStreams::Of;

// Its trunk runs about twice until it is encoded, and once with the experts.
constexpr uint64_t kPasses = 4;

// Encodes the whole model.
class CalibrateRun final : public Calibrator {
 public:
  CalibrateRun(const CalibrateInput& input, const CalibrateOptions& options,
               std::unique_ptr<TwoStreams> streams)
      : input_(input),
        options_(options),
        streams_(std::move(streams)),
        products_(streams_->model().executor(), options.jobs) {}

  uint32_t layers() const override { return streams_->spec().layers; }
  const Calibration& text() const override { return streams_->text(); }

  Result<EncodedLayer> Encode(uint32_t layer) override {
    EncodedLayer encoded;
    encoded.outcome.layer = layer;
    if (layer == 0) SHARD_CHECK(EncodeEmbedding(encoded));
    SHARD_CHECK(streams_->Open(layer));
    if (layer == layers()) {
      SHARD_CHECK(EncodeOutput(encoded));
      return encoded;
    }
    for (const HostTensor* tensor : streams_->TrunkTensorsOf(layer)) pending_.insert(tensor);
    SHARD_CHECK(EncodePending(encoded));
    SHARD_CHECK(RunLayer(layer, encoded, /*known=*/false));
    // What no pass multiplies is encoded as it would be without calibration.
    for (const HostTensor* tensor : std::exchange(pending_, {})) {
      ++encoded.outcome.matrices;
      ++encoded.outcome.unseen;
      SHARD_CHECK(EncodeWhole(*tensor, encoded));
    }
    return encoded;
  }

  Status Replay(uint32_t layer, const EncodedLayer& encoded) override {
    if (layer == 0) SHARD_CHECK(streams_->StartFrom(encoded.tensors));
    SHARD_CHECK(streams_->Open(layer));
    if (layer == layers()) return Ok();
    SHARD_CHECK(streams_->PutTrunk(layer, encoded.tensors));
    EncodedLayer copy = encoded;
    return RunLayer(layer, copy, /*known=*/true);
  }

 private:
  ProductWatch& watch() const { return input_.watch; }
  const quant::Format* TypeOf(const HostTensor& tensor) const { return streams_->TypeOf(tensor); }

  // ---- The embedding

  // The embedding has no inputs. All columns count alike: weights from the measured effect of
  // random errors on the output did no better, and ggml's own weights, which grow with the value,
  // double the divergence that the embedding costs.
  Status EncodeEmbedding(EncodedLayer& encoded) {
    const HostTensor* const embedding = streams_->model().weights().FindTrunk(kEmbeddingTensor);
    if (embedding == nullptr || !input_.types.contains(kEmbeddingTensor)) return Ok();
    const size_t columns = embedding->shape.back();
    const FeedbackFactor alike = FeedbackFactor::Alike(columns);
    const std::vector<std::vector<float>> importances = {std::vector<float>(columns, 1), {}};
    const std::vector<float> weights = DecodedRows(*embedding, 0, RowsOf(*embedding));
    encoded.tensors[kEmbeddingTensor] = EncodeWithFeedback({weights, columns, TypeOf(*embedding)},
                                                           alike, importances, options_.jobs);
    return streams_->StartFrom(encoded.tensors);
  }

  // ---- The trunk of a layer

  // Runs a batch of a stream through a part of the layer, and throws away the result: up to the
  // experts, or what follows their sum, or all of a layer without any.
  Status Probe(const WindowBatch& batch, Of stream) {
    return after_experts_ ? streams_->TryAddExperts(batch, stream)
                          : streams_->TryToExperts(batch, stream);
  }

  // Encodes the pending tensors that the passes of Probe multiply.
  Status EncodePending(EncodedLayer& encoded) {
    while (!pending_.empty()) {
      SHARD_CHECK(CheckInterrupt());
      watch().SetPending(pending_);
      watch().FindGroups();
      SHARD_CHECK(Probe(streams_->batches().front(), Of::kEncoded));
      std::vector<InputGroup>& groups = watch().groups();
      if (groups.empty()) break;
      SHARD_TRY(std::vector<MomentPair> moments, MeasureGroups(groups));
      SHARD_CHECK(EncodeGroups(groups, std::move(moments), encoded));
    }
    watch().Stop();
    return Ok();
  }

  Status EncodeWhole(const HostTensor& tensor, EncodedLayer& encoded) {
    const std::vector<float> weights = DecodedRows(tensor, 0, RowsOf(tensor));
    std::vector<std::byte>& bytes = encoded.tensors[tensor.name];
    bytes = EncodePlainly({weights, tensor.shape.back(), TypeOf(tensor)}, {}, options_.jobs);
    return streams_->Put(tensor, bytes);
  }

  static uint64_t RowsOf(const HostTensor& tensor) {
    uint64_t rows = 1;
    for (size_t axis = 0; axis + 1 < tensor.shape.size(); ++axis) rows *= tensor.shape[axis];
    return rows;
  }

  // The inputs of the groups' matrices in a batch of a stream. The pass ends with them, and what
  // follows is multiplied again.
  Status CollectRows(const WindowBatch& batch, Of stream) {
    watch().CollectRows();
    const Status done = Probe(batch, stream);
    watch().Stop();
    return done;
  }

  // Both streams once, for the inputs of the groups' matrices.
  Result<std::vector<MomentPair>> MeasureGroups(std::vector<InputGroup>& groups) {
    std::vector<MomentPairSums> sums;
    for (const InputGroup& group : groups)
      sums.emplace_back(group.parts.front().columns, products_);
    std::vector<std::vector<float>> own(groups.size());
    for (const WindowBatch& batch : streams_->batches()) {
      SHARD_CHECK(CheckInterrupt());
      SHARD_CHECK(CollectRows(batch, Of::kEncoded));
      for (size_t i = 0; i < groups.size(); ++i) own[i] = std::move(groups[i].rows);
      SHARD_CHECK(CollectRows(batch, Of::kFull));
      for (size_t i = 0; i < groups.size(); ++i) {
        const size_t columns = groups[i].parts.front().columns;
        // Matrices that are not multiplied with every token are encoded plainly.
        if (own[i].size() != batch.tokens * columns || groups[i].rows.size() != own[i].size())
          continue;
        SHARD_CHECK(sums[i].Add(own[i], groups[i].rows, streams_->HeldOutFrom(batch.first)));
      }
      streams_->Advance(batch.tokens);
    }
    std::vector<MomentPair> moments;
    for (MomentPairSums& one : sums) {
      SHARD_TRY(MomentPair pair, one.Finish());
      moments.push_back(std::move(pair));
    }
    return moments;
  }

  Status EncodeGroups(const std::vector<InputGroup>& groups, std::vector<MomentPair> moments,
                      EncodedLayer& encoded) {
    std::map<const HostTensor*, uint64_t> rows_done;
    for (size_t i = 0; i < groups.size(); ++i) {
      std::vector<const quant::Format*> types;
      for (const MatrixPart& part : groups[i].parts) types.push_back(TypeOf(*part.tensor));
      const MatrixEncoder encoder(std::move(moments[i]), types, {}, options_);
      for (const MatrixPart& part : groups[i].parts) {
        const HostTensor& tensor = *part.tensor;
        const quant::Format* const type = TypeOf(tensor);
        const uint64_t row_bytes = *type->BytesFor(part.columns);
        std::vector<std::byte>& whole = encoded.tensors[tensor.name];
        whole.resize(RowsOf(tensor) * row_bytes);
        const std::vector<float> weights = DecodedRows(tensor, part.first_row, part.rows);
        const std::vector<std::byte> bytes =
            encoder.Encode({weights, part.columns, type}, encoded.outcome);
        std::copy(bytes.begin(), bytes.end(),
                  whole.begin() + static_cast<ptrdiff_t>(part.first_row * row_bytes));
        rows_done[&tensor] += part.rows;
      }
    }
    for (const auto& [tensor, rows] : rows_done) {
      pending_.erase(tensor);
      // A matrix of which some rows are never used, or that is multiplied in overlapping parts.
      if (rows != RowsOf(*tensor)) {
        ++encoded.outcome.unseen;
        SHARD_CHECK(EncodeWhole(*tensor, encoded));
        continue;
      }
      SHARD_CHECK(streams_->Put(*tensor, encoded.tensors[tensor->name]));
    }
    return Ok();
  }

  // ---- The rest of a layer

  // Runs both streams through the layer. Its experts are encoded on the way, or are `known`.
  Status RunLayer(uint32_t layer, EncodedLayer& encoded, bool known) {
    if (!streams_->has_experts()) return streams_->RunDense();
    SHARD_CHECK(streams_->RunToExperts());
    ExpertLayer experts = streams_->Experts(layer);
    experts.exchange = input_.exchange;
    SHARD_CHECK(EncodeExperts(experts, known, encoded.outcome, encoded.tensors));
    after_experts_ = true;
    SHARD_CHECK(EncodePending(encoded));
    after_experts_ = false;
    return streams_->AddExperts();
  }

  // ---- The output

  Status EncodeOutput(EncodedLayer& encoded) {
    const HostTensor* const output = streams_->model().weights().FindTrunk("output.weight");
    if (output == nullptr || !input_.types.contains(output->name)) return Ok();
    const size_t columns = output->shape.back();
    MomentPairSums sums(columns, products_);
    std::vector<float> own, full;
    for (const WindowBatch& batch : streams_->batches()) {
      SHARD_CHECK(streams_->InputsOfOutput(batch, Of::kEncoded, own));
      SHARD_CHECK(streams_->InputsOfOutput(batch, Of::kFull, full));
      SHARD_CHECK(sums.Add(own, full, streams_->HeldOutFrom(batch.first)));
      streams_->Advance(batch.tokens);
    }
    const quant::Format* const type = TypeOf(*output);
    SHARD_TRY(MomentPair moments, sums.Finish());
    const MatrixEncoder encoder(std::move(moments), std::span(&type, 1), {}, options_);
    const std::vector<float> weights = DecodedRows(*output, 0, RowsOf(*output));
    encoded.tensors[output->name] = encoder.Encode({weights, columns, type}, encoded.outcome);
    return Ok();
  }

  const CalibrateInput& input_;
  const CalibrateOptions& options_;
  std::unique_ptr<TwoStreams> streams_;
  Products products_;
  std::set<const HostTensor*> pending_;  // of the layer's trunk, not encoded yet
  bool after_experts_ = false;           // what Probe runs
};

}  // namespace

Result<Calibration> CalibrationTextOf(std::span<const TokenSession> sessions,
                                      const CalibrateOptions& options,
                                      std::optional<uint32_t> bos) {
  RefitOptions windows;
  windows.tokens = options.tokens;
  windows.context = options.context;
  windows.fold = options.fold;
  return MakeCalibration(sessions, {}, windows, bos);
}

Result<std::unique_ptr<Calibrator>> Calibrator::Open(const CalibrateInput& input,
                                                     const CalibrateOptions& options,
                                                     OnProgress progress) {
  SHARD_TRY(std::unique_ptr<TwoStreams> streams,
            TwoStreams::Make(input, options, kPasses, std::move(progress)));
  return std::unique_ptr<Calibrator>(
      std::make_unique<CalibrateRun>(input, options, std::move(streams)));
}

}  // namespace moepack::runtime
