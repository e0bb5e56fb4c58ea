// What a node needs: one model on one executor, its mask, and the three calls that serve a session.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/model/weights.h"
#include "runtime-shim/session/generation.h"
#include "runtime-shim/session/session.h"
#include "runtime-shim/tokenizer/tokenizer.h"

namespace moepack::runtime {

struct NodeOptions {
  std::string executor = "cpu";
  ExecutorOptions device;
  // For a distribution: the group that is loaded and that the routers are masked to; with -1
  // everything is loaded and nothing is masked.
  int group = -1;
  LoadOptions load;  // `groups` is set from `group`
};

// One thread at a time may use a node and its generations; several nodes may run side by side.
class Node {
 public:
  // kInvalidArgument for a group of a source that is not a distribution or has fewer, kNotFound for
  // one whose files it does not have; else the errors of OpenExecutor, LoadWeights and Model::Load.
  static Result<std::unique_ptr<Node>> Open(const std::string& source, const NodeOptions& options);

  const Model& model() const { return *model_; }
  const Weights& weights() const { return model_->weights(); }
  const Executor& executor() const { return *executor_; }
  // What the routers may pick, by layer.
  const LayerExperts& eligible() const { return eligible_; }
  // The error of OpenTokenizer when the model has none that runs here.
  Result<const Tokenizer*> tokenizer() const;

  // How well each group of the distribution would serve this prompt, best 1, worst 0: GroupScores
  // over the first `moe_layers` MoE layers (0: all). One pass over the prompt with this node's mask
  // through no more layers than that, in a session of its own; every node can score all groups.
  // kInvalidArgument without a plan, for fewer than 2 tokens, and as Session::Route.
  Result<std::vector<double>> ProbeScore(std::span<const uint32_t> tokens,
                                         uint32_t moe_layers) const;

  // A session with this node's mask. Borrows the node.
  Result<std::unique_ptr<Session>> OpenSession(const SessionOptions& options) const;
  Result<std::unique_ptr<Generation>> OpenGeneration(const SessionOptions& options,
                                                     const Sampling& sampling) const;

 private:
  Node() = default;

  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Model> model_;  // on the executor, so it goes first
  LayerExperts eligible_;
  Result<std::unique_ptr<Tokenizer>> tokenizer_ = std::unique_ptr<Tokenizer>();
};

}  // namespace moepack::runtime
