#include "runtime-shim/session/session.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/files/mapped_file.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/session/forward.h"

namespace moepack::runtime {
namespace {

constexpr uint32_t kDefaultContext = 4096;

class DeviceSession final : public Session {
 public:
  DeviceSession(const DeviceModel& model, Scratch scratch, EligibleTables eligible,
                const SessionOptions& options)
      : model_(model),
        options_(options),
        scratch_(std::move(scratch)),
        eligible_(std::move(eligible)),
        forward_(model, scratch_, eligible_, options.observer) {
    forward_.SetContext(options.context);
  }

  Result<std::vector<float>> Feed(std::span<const uint32_t> tokens, LogitsOf which) override;
  Status Route(std::span<const uint32_t> tokens, uint32_t layers) override;
  uint32_t length() const override { return length_; }
  uint32_t context() const override { return options_.context; }
  void Rewind(uint32_t length) override { length_ = std::min(length_, length); }
  const Model& model() const override { return model_; }

 private:
  Status CheckTokens(std::span<const uint32_t> tokens) const;
  Status RunBatch(const Batch& batch, std::span<float> logits);
  Status CatchUp(const Batch& batch);
  Status Run(const Batch& batch, bool trace);

  const DeviceModel& model_;
  SessionOptions options_;
  Scratch scratch_;
  EligibleTables eligible_;
  Forward forward_;
  uint32_t length_ = 0;
  std::vector<uint32_t> history_;  // the tokens at the positions that states and caches hold
};

// The state of a recurrent layer cannot go back: where it holds other tokens than those before
// `batch`, it is made again from the first one. Keys and values come out with the same bits.
Status DeviceSession::CatchUp(const Batch& batch) {
  const ModelSpec& spec = model_.spec();
  const uint32_t layers = batch.layers == 0 ? spec.layers : batch.layers;
  bool holds = true;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    if (!spec.layer[layer].recurrent) continue;
    holds = holds && scratch_.caches[layer].delta.length == batch.past;
  }
  if (holds) return Ok();
  for (uint32_t layer = 0; layer < spec.layers; ++layer) {
    if (spec.layer[layer].recurrent) scratch_.caches[layer].delta.Clear(spec.delta);
  }
  for (uint32_t first = 0; first < batch.past;) {
    const uint32_t count = std::min(options_.batch, batch.past - first);
    const auto part = std::span(history_).subspan(first, count);
    SHARD_CHECK(forward_.Run({part, first, false, layers, /*quiet=*/true}, /*trace=*/false));
    first += count;
  }
  return Ok();
}

Status DeviceSession::Run(const Batch& batch, bool trace) {
  SHARD_CHECK(CatchUp(batch));
  return forward_.Run(batch, trace);
}

Status DeviceSession::CheckTokens(std::span<const uint32_t> tokens) const {
  const std::string& path = model_.weights().path;
  if (tokens.empty())
    return Error{Code::kInvalidArgument, Cat(path, ": tokens: expected at least 1, found none")};
  if (tokens.size() > options_.context - length_) {
    return Error{Code::kInvalidArgument,
                 Cat(path, ": tokens: expected at most ", options_.context - length_,
                     " more in a context of ", options_.context, ", found ", tokens.size()),
                 "a larger --context has room for more"};
  }
  for (const uint32_t token : tokens) {
    if (token < model_.vocabulary()) continue;
    return Error{Code::kInvalidArgument, Cat(path, ": token: expected an id below ",
                                             model_.vocabulary(), ", found ", token)};
  }
  return Ok();
}

bool AllFinite(std::span<const float> values) {
  return std::all_of(values.begin(), values.end(),
                     [](float value) { return std::isfinite(value); });
}

Status DeviceSession::RunBatch(const Batch& batch, std::span<float> logits) {
  history_.resize(batch.past);
  history_.insert(history_.end(), batch.tokens.begin(), batch.tokens.end());
  Status done = Run(batch, /*trace=*/false);
  const auto rows = static_cast<uint32_t>(logits.size() / model_.vocabulary());
  if (done && batch.layers != 0) done = model_.executor().Finish();
  if (done && batch.layers == 0)
    done = model_.executor().Read(scratch_.logits.Slice(0, rows), logits);
  SHARD_CHECK(CheckMappedFiles());  // the weights of a file that was cut meanwhile read as zeros
  if (done && AllFinite(logits)) return done;
  if (!done && (done.error().code == Code::kUnavailable || done.error().code == Code::kInterrupted))
    return done;
  // Runs the batch again to find where the first NaN appeared. This is safe, because it writes the
  // same rows of the caches again.
  SHARD_CHECK(Run(batch, /*trace=*/true));
  if (!done) return done;
  return Error{Code::kCorrupt, Cat(model_.weights().path,
                                   ": logits: expected finite numbers, found NaN or infinity that "
                                   "a second run of the same tokens did not have")};
}

Status DeviceSession::Route(std::span<const uint32_t> tokens, uint32_t layers) {
  SHARD_CHECK(CheckTokens(tokens));
  const uint32_t start = length_;
  Status done = Ok();
  for (size_t first = 0; first < tokens.size() && done; first += options_.batch) {
    const auto part =
        tokens.subspan(first, std::min<size_t>(options_.batch, tokens.size() - first));
    done = RunBatch({part, length_, false, layers}, {});
    length_ += static_cast<uint32_t>(part.size());
  }
  length_ = start;
  return done;
}

Result<std::vector<float>> DeviceSession::Feed(std::span<const uint32_t> tokens, LogitsOf which) {
  SHARD_CHECK(CheckTokens(tokens));
  const size_t width = model_.vocabulary();
  const bool all = which == LogitsOf::kAll;
  std::vector<float> logits((all ? tokens.size() : 1) * width);
  const uint32_t start = length_;
  for (size_t first = 0; first < tokens.size(); first += options_.batch) {
    const auto part =
        tokens.subspan(first, std::min<size_t>(options_.batch, tokens.size() - first));
    const std::span<float> out =
        std::span(logits).subspan(all ? first * width : 0, (all ? part.size() : 1) * width);
    if (Status done = RunBatch({part, length_, all}, out); !done) {
      length_ = start;
      return std::move(done).error();
    }
    length_ += static_cast<uint32_t>(part.size());
    if (options_.fed) options_.fed(part.size());
  }
  return logits;
}

}  // namespace

Result<std::unique_ptr<Session>> Session::Open(const Model& model, const LayerExperts& eligible,
                                               const SessionOptions& options) {
  const auto& own = static_cast<const DeviceModel&>(model);
  SessionOptions used = options;
  const uint32_t most = model.spec().context;
  if (used.context == 0) used.context = std::min(kDefaultContext, most);
  if (used.context > most) {
    return Error{Code::kInvalidArgument, Cat(model.weights().path, ": context: expected at most ",
                                             most, " positions, found ", used.context)};
  }
  used.batch = std::clamp(used.batch, 1u, used.context);
  SHARD_TRY(std::vector<LayerExpertTable> tables, own.TableOf(eligible));
  SHARD_TRY(Scratch scratch, AllocateScratch(own, used.batch, used.context));
  return std::unique_ptr<Session>(std::make_unique<DeviceSession>(
      own, std::move(scratch), EligibleTables{std::move(tables), eligible}, used));
}

}  // namespace moepack::runtime
