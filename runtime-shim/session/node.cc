#include "runtime-shim/session/node.h"

#include <algorithm>

#include "manifest/document/node_record.h"
#include "runtime-shim/session/model_tokenizer.h"
#include "runtime-shim/session/probe.h"

namespace moepack::runtime {

LoadOptions NodeOptions::loading() const {
  LoadOptions loading = load;
  loading.groups.clear();
  if (group) loading.groups.push_back(*group);
  if (loading.jobs == 0) loading.jobs = device.threads;
  return loading;
}

Result<std::unique_ptr<Node>> Node::Open(const std::string& source, const NodeOptions& options) {
  std::unique_ptr<Node> node(new Node);
  // The executor is opened first, because that costs nothing, and nobody wants to read a large
  // model only to learn that there is no device.
  SHARD_TRY(node->executor_, OpenExecutor(options.executor, options.device));
  SHARD_TRY(std::shared_ptr<const Weights> weights, LoadWeights(source, options.loading()));
  node->eligible_ = EligibleExperts(*weights, options.group, options.load.overlay);
  node->tokenizer_ = OpenTokenizer(*weights);
  SHARD_TRY(node->model_, Model::Load(std::move(weights), *node->executor_));
  return node;
}

Result<const Tokenizer*> Node::tokenizer() const {
  if (!tokenizer_) return tokenizer_.error();
  return tokenizer_->get();
}

Result<std::unique_ptr<Session>> Node::OpenSession(const SessionOptions& options) const {
  return Session::Open(*model_, eligible_, options);
}

Result<std::unique_ptr<Generation>> Node::OpenGeneration(const SessionOptions& options,
                                                         const Sampling& sampling) const {
  SHARD_CHECK(CheckSampling(sampling));
  SHARD_TRY(std::unique_ptr<Session> session, OpenSession(options));
  return std::make_unique<Generation>(std::move(session), sampling);
}

Result<std::vector<double>> Node::ProbeScore(std::span<const uint32_t> tokens,
                                             uint32_t moe_layers) const {
  if (!weights().plan) return manifest::HasNoGroups(weights().path);
  const Plan& plan = *weights().plan;
  std::vector<LayerExperts> groups(plan.groups.size());
  for (size_t group = 0; group < groups.size(); ++group) {
    for (const auto& [layer, expert_count] : plan.layers)
      groups[group][layer] = Eligible(plan, group, layer);
  }
  GroupScores scores(*model_, groups, moe_layers);
  SessionOptions options;
  options.context = static_cast<uint32_t>(std::min<size_t>(tokens.size(), model_->spec().context));
  options.observer = &scores;
  SHARD_TRY(const std::unique_ptr<Session> session, OpenSession(options));
  SHARD_CHECK(session->Route(tokens, scores.layers()));
  return scores.Scores();
}

}  // namespace moepack::runtime
