// A node: one model on one executor, its mask, and the three calls that serve a session.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

// What is loaded, and where it runs.
struct NodeOptions {
  std::string executor = "cpu";
  ExecutorOptions device;
  // For a distribution, the group to load and to mask the routers to. Without it everything is
  // loaded and nothing is masked.
  std::optional<uint32_t> group;
  LoadOptions load;  // `groups` is set from `group`

  // `load` as it is meant: its jobs, unless given, are as many threads as compute.
  LoadOptions loading() const;
};

// Only one thread at a time may use a node and its generations. Several nodes may run side by side.
class Node {
 public:
  // Opens a node. kInvalidArgument for a group if the source is not a distribution or has fewer
  // groups, kNotFound if the group's files are missing; otherwise the errors of OpenExecutor,
  // LoadWeights and Model::Load.
  static Result<std::unique_ptr<Node>> Open(const std::string& source, const NodeOptions& options);

  const Model& model() const { return *model_; }
  const Weights& weights() const { return model_->weights(); }
  const Executor& executor() const { return *executor_; }
  // What the routers may pick, by layer.
  const LayerExperts& eligible() const { return eligible_; }
  // Returns the tokenizer, or why the model has none that runs here: the error of OpenTokenizer.
  Result<const Tokenizer*> tokenizer() const;

  // Scores how well each group of the distribution would serve this prompt, from 0 (worst) to 1:
  // GroupScores over the first `moe_layers` MoE layers (0: all). It takes one pass over the prompt
  // with this node's mask, through no more layers than needed, in a separate session; every node
  // can score all groups. kInvalidArgument without a plan or for fewer than 2 tokens; otherwise the
  // errors of Session::Route.
  Result<std::vector<double>> ProbeScore(std::span<const uint32_t> tokens,
                                         uint32_t moe_layers) const;

  // Opens a session with this node's mask. It borrows the node.
  Result<std::unique_ptr<Session>> OpenSession(const SessionOptions& options) const;
  Result<std::unique_ptr<Generation>> OpenGeneration(const SessionOptions& options,
                                                     const Sampling& sampling) const;

 private:
  Node() = default;

  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Model> model_;  // lives on the executor, so it is destroyed before it
  LayerExperts eligible_;
  Result<std::unique_ptr<Tokenizer>> tokenizer_ = std::unique_ptr<Tokenizer>();
};

}  // namespace moepack::runtime
