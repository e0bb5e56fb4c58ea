#include "runtime-shim/session/session.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/text/text.h"
#include "runtime-shim/session/pass.h"

namespace moepack::runtime {
namespace {

constexpr uint32_t kDefaultContext = 4096;

class DeviceSession final : public Session {
 public:
  DeviceSession(const DeviceModel& model, Caches caches, EligibleTables eligible,
                const SessionOptions& options)
      : model_(model),
        options_(options),
        caches_(std::move(caches)),
        eligible_(std::move(eligible)),
        turns_(Forward::TurnsOf(model, options.context)) {}

  Result<std::vector<float>> Feed(std::span<const uint32_t> tokens, LogitsOf which) override;
  Status FeedTogether(std::span<const Part> parts, LogitsOf which, const SeeLogits& see) override;
  Status Route(std::span<const uint32_t> tokens, uint32_t layers) override;
  uint32_t length() const override { return length_; }
  uint32_t context() const override { return options_.context; }
  void Rewind(uint32_t length) override { length_ = std::min(length_, length); }
  const Model& model() const override { return model_; }

 private:
  Status CheckTokens(std::span<const uint32_t> tokens) const;
  Segment SegmentOf(std::span<const uint32_t> tokens) {
    // A rewind, or a pass that failed, leaves tokens that do not count.
    history_.resize(length_);
    history_.insert(history_.end(), tokens.begin(), tokens.end());
    return {tokens,
            length_,
            &caches_.layers,
            &eligible_,
            options_.observer,
            &turns_,
            std::span(history_).first(length_)};
  }
  // Runs a batch, and reads the logits of its last rows.
  Status RunBatch(std::span<const uint32_t> tokens, std::span<float> logits);
  Status ShowSlices(Pass& pass, std::span<const Part> parts, LogitsOf which,
                    const SeeLogits& see) const;

  const DeviceModel& model_;
  SessionOptions options_;
  Caches caches_;
  EligibleTables eligible_;
  Turns turns_;
  uint32_t length_ = 0;
  std::vector<uint32_t> history_;  // the tokens at the positions of the caches
};

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

// Counts up from `first`.
std::vector<uint32_t> RowsFrom(uint32_t first, size_t count) {
  std::vector<uint32_t> rows(count);
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

Status DeviceSession::RunBatch(std::span<const uint32_t> tokens, std::span<float> logits) {
  Pass pass(model_, {SegmentOf(tokens)});
  SHARD_CHECK(pass.Run(0));
  const size_t rows = logits.size() / model_.vocabulary();
  return pass.Read(RowsFrom(static_cast<uint32_t>(tokens.size() - rows), rows), logits);
}

Status DeviceSession::Route(std::span<const uint32_t> tokens, uint32_t layers) {
  SHARD_CHECK(CheckTokens(tokens));
  const uint32_t start = length_;
  Status done = Ok();
  for (size_t first = 0; first < tokens.size() && done; first += options_.batch) {
    const auto part =
        tokens.subspan(first, std::min<size_t>(options_.batch, tokens.size() - first));
    done = Pass(model_, {SegmentOf(part)}).Run(layers);
    // The next part attends to this one.
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
    // With kLast every batch writes the same row, and that of the last batch stays.
    const std::span<float> out =
        std::span(logits).subspan(all ? first * width : 0, (all ? part.size() : 1) * width);
    if (Status done = RunBatch(part, out); !done) {
      length_ = start;
      return std::move(done).error();
    }
    length_ += static_cast<uint32_t>(part.size());
    if (options_.fed) options_.fed(part.size());
  }
  return logits;
}

Status DeviceSession::ShowSlices(Pass& pass, std::span<const Part> parts, LogitsOf which,
                                 const SeeLogits& see) const {
  const bool all = which == LogitsOf::kAll;
  const size_t width = model_.vocabulary();
  // As many rows of every part as fit into the rows for logits together.
  const auto height =
      static_cast<uint32_t>(std::max<size_t>(1, model_.scratch().logits.count / parts.size()));
  uint32_t longest = 1;
  for (size_t i = 0; i < parts.size() && all; ++i)
    longest = std::max(longest, pass.segment(i).count());
  for (uint32_t first = 0; first < longest; first += height) {
    std::vector<uint32_t> rows;
    std::vector<size_t> counts;
    for (size_t i = 0; i < parts.size(); ++i) {
      const Segment& segment = pass.segment(i);
      const uint32_t from = all ? std::min(first, segment.count()) : segment.count() - 1;
      const uint32_t count = std::min(height, segment.count() - from);
      const auto own = RowsFrom(segment.first_row + from, count);
      rows.insert(rows.end(), own.begin(), own.end());
      counts.push_back(count);
    }
    std::vector<float> logits(rows.size() * width);
    SHARD_CHECK(pass.Read(rows, logits));
    LogitsSlice slice{first, model_.vocabulary(), {}};
    std::span<const float> left = logits;
    for (const size_t count : counts) {
      slice.parts.push_back(left.first(count * width));
      left = left.subspan(count * width);
    }
    SHARD_CHECK(see(slice));
  }
  return Ok();
}

Status DeviceSession::FeedTogether(std::span<const Part> parts, LogitsOf which,
                                   const SeeLogits& see) {
  std::vector<Segment> segments;
  double tokens = 0;
  for (const Part& part : parts) {
    auto& session = static_cast<DeviceSession&>(*part.session);
    SHARD_CHECK(session.CheckTokens(part.tokens));
    segments.push_back(session.SegmentOf(part.tokens));
    tokens += static_cast<double>(part.tokens.size());
  }
  Pass pass(model_, std::move(segments));
  if (options_.ran) pass.WatchLayers([&](double share) { options_.ran(share * tokens); });
  SHARD_CHECK(pass.Run(0));
  SHARD_CHECK(ShowSlices(pass, parts, which, see));
  // Only now, so that an error leaves all sessions as they were.
  for (const Part& part : parts)
    static_cast<DeviceSession&>(*part.session).length_ += static_cast<uint32_t>(part.tokens.size());
  return Ok();
}

}  // namespace

Status Session::FeedTogether(std::span<const Part> parts, LogitsOf which, const SeeLogits& see) {
  std::vector<std::vector<float>> logits;
  LogitsSlice slice;
  for (const Part& part : parts) {
    SHARD_TRY(std::vector<float> own, part.session->Feed(part.tokens, which));
    const size_t rows = which == LogitsOf::kAll ? part.tokens.size() : 1;
    slice.width = static_cast<uint32_t>(own.size() / rows);
    slice.parts.emplace_back(logits.emplace_back(std::move(own)));
  }
  return see(slice);
}

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
  used.batch = std::max(used.batch, 1u);
  SHARD_TRY(EligibleTables tables, own.TablesOf(eligible, used.group));
  SHARD_TRY(Caches caches,
            AllocateRows(own, {used.batch, used.context, used.logit_bytes}, own.scratch()));
  return std::unique_ptr<Session>(
      std::make_unique<DeviceSession>(own, std::move(caches), std::move(tables), used));
}

}  // namespace moepack::runtime
