// A model on an executor, and sessions that run tokens through it with masked routers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/graph/model_spec.h"
#include "runtime-shim/executor/executor.h"
#include "runtime-shim/model/router.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// A model's weights on an executor. Trunk and sets of experts are separate, and a table per layer
// records where each expert is, so that several groups can share one trunk. Borrows the executor.
class Model {
 public:
  // Checks that the model can run (family, tensors, shapes: kUnsupported or kCorrupt) and that the
  // device has room (kUnavailable, with the bytes), then uploads the weights.
  static Result<std::unique_ptr<Model>> Load(std::shared_ptr<const Weights> weights,
                                             Executor& executor);
  virtual ~Model() = default;

  virtual const ModelSpec& spec() const = 0;
  virtual const Weights& weights() const = 0;
  virtual Executor& executor() const = 0;
  virtual uint64_t device_bytes() const = 0;
  virtual uint32_t vocabulary() const = 0;
  // Bytes that sessions take: for each token that runs at once, shared by all sessions, for each
  // position of a session, and for a session whatever its length.
  virtual uint64_t bytes_per_token() const = 0;
  virtual uint64_t bytes_per_position() const = 0;
  virtual uint64_t bytes_per_session() const = 0;
};

// What one MoE layer chose and computed for a batch of tokens.
struct RoutedBatch {
  uint32_t layer = 0;
  uint32_t first_position = 0;  // of the first token
  uint32_t tokens = 0, expert_count = 0;
  std::span<const float> logits;          // [tokens, expert_count], unmasked
  std::span<const float> selection_bias;  // [expert_count] or empty
  std::span<const Selection> chosen;      // per token: ids and the gates that were applied
  bool by_table = false;  // `chosen` does not depend on the logits, which only weigh it
  // For each token and chosen expert, best first, the Euclidean norm and the largest magnitude of
  // the expert's output before its gate. [tokens * top_k], or empty if not requested.
  std::span<const float> output_norms, output_peaks;
};

// Is called with what routers decide, in layer order for each batch.
class RoutingObserver {
 public:
  virtual ~RoutingObserver() = default;
  virtual bool wants_outputs() const { return false; }
  virtual void Observe(const RoutedBatch& batch) = 0;
};

struct SessionOptions {
  uint32_t context = 0;                 // positions; 0: 4096, or the model's own if that is less
  uint32_t batch = 128;                 // tokens that run at once
  RoutingObserver* observer = nullptr;  // borrowed
  // The size of the logits computed at a time; larger batches read them in slices. The first
  // session of a model decides, until one with a larger batch does.
  uint64_t logit_bytes = 64u << 20;
  // Called after each batch with its number of tokens. May be empty.
  PieceDone fed = {};
  // Called by FeedTogether after each layer, with the tokens of the pass in proportion to the
  // layers that have run. May be empty.
  std::function<void(double tokens)> ran = {};
  // The group whose node the session is on, needed if a refit gave groups different experts with
  // the same id. Not needed if only one group is loaded.
  std::optional<uint32_t> group = std::nullopt;
};

enum class LogitsOf : uint8_t { kLast, kAll };

class Session;

// A session's part of a joint pass.
struct Part {
  Session* session = nullptr;
  std::span<const uint32_t> tokens;
};
// Logits [rows, vocabulary] of each part: those of its tokens from `first` on, as many as fit in a
// slice; fewer or none for a part that ends before. With LogitsOf::kLast the only row is the last.
struct LogitsSlice {
  uint32_t first = 0;
  uint32_t width = 0;  // the vocabulary
  std::vector<std::span<const float>> parts;
};
using SeeLogits = std::function<Status(const LogitsSlice& slice)>;

// One sequence on one node. Borrows the model.
class Session {
 public:
  // Opens a session in which the router of each MoE layer may pick from `eligible`.
  // kInvalidArgument if a layer has fewer experts than its top-k, or an expert is not loaded;
  // kUnavailable if the cache does not fit.
  static Result<std::unique_ptr<Session>> Open(const Model& model, const LayerExperts& eligible,
                                               const SessionOptions& options);
  virtual ~Session() = default;

  // Runs tokens at the positions after the existing ones, and returns logits [rows, vocabulary] of
  // the last token or of all. kInvalidArgument for no tokens, an id outside the vocabulary, and
  // more tokens than the context holds. kCorrupt for NaN among the logits, with the layer and the
  // operation where it first appeared. kInterrupted between two layers; the session is then left as
  // it was.
  virtual Result<std::vector<float>> Feed(std::span<const uint32_t> tokens, LogitsOf which) = 0;
  // Runs tokens of this session and of others of the same model in one pass, so that each weight is
  // decoded once for all of them, and calls `see` with the logits, in ascending slices. Every part
  // gets the bits that it would get alone. Errors are those of Feed and of `see`; the sessions are
  // then left as they were. REQUIRES: different sessions, this one first, with at most
  // SessionOptions::batch tokens together. This form runs one session after another.
  virtual Status FeedTogether(std::span<const Part> parts, LogitsOf which, const SeeLogits& see);
  // Runs tokens through only the first `layers` layers (1 to all), for the observer. The session is
  // left as it was. Errors are those of Feed.
  virtual Status Route(std::span<const uint32_t> tokens, uint32_t layers) = 0;
  // The number of positions that it holds.
  virtual uint32_t length() const = 0;
  // The number of positions that it has room for.
  virtual uint32_t context() const = 0;
  // Forgets all positions from `length` on.
  virtual void Rewind(uint32_t length) = 0;
  virtual const Model& model() const = 0;
};

}  // namespace moepack::runtime
