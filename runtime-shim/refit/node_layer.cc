#include "runtime-shim/refit/node_layer.h"

#include <algorithm>
#include <cmath>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/model/router.h"

namespace moepack::runtime {
namespace {

// Tokens of a block that is read, run and written at once.
constexpr size_t kTokensOfBlock = 2048;
// Rows of a sample that a thread computes at a time.
constexpr size_t kRowsOfSample = 256;
// Tokens for which a thread chooses experts at a time.
constexpr size_t kChoicesOfPiece = 128;

Routes EmptyRoutes(const NodeLayer& node, size_t tokens) {
  Routes routes;
  routes.top_k = node.routing.top_k;
  routes.places.assign(tokens * routes.top_k, 0);
  routes.gates.assign(routes.places.size(), 0);
  return routes;
}

// The choices of `routes` from token `first` on.
Status ChooseBlock(const NodeLayer& node, std::span<const float> logits, size_t first, size_t jobs,
                   Routes& routes) {
  const ExpertIds& ids = node.experts.expert_ids;
  const size_t wide = node.routing.expert_count, count = logits.size() / ids.size();
  std::vector<float> bias;
  if (!node.experts.selection_bias.empty()) {
    bias.assign(wide, 0);
    for (size_t i = 0; i < ids.size(); ++i) bias[ids[i]] = node.experts.selection_bias[i];
  }
  // Experts are chosen by their ids in the whole model, because routing groups are ranges of ids.
  std::vector<uint32_t> place_of(wide, 0);
  for (size_t i = 0; i < ids.size(); ++i) place_of[ids[i]] = static_cast<uint32_t>(i);
  const size_t pieces = (count + kChoicesOfPiece - 1) / kChoicesOfPiece;
  return ParallelFor(pieces, jobs, [&](size_t piece) -> Status {
    std::vector<float> row(wide, 0);
    const size_t end = std::min((piece + 1) * kChoicesOfPiece, count);
    for (size_t token = piece * kChoicesOfPiece; token < end; ++token) {
      for (size_t i = 0; i < ids.size(); ++i) row[ids[i]] = logits[token * ids.size() + i];
      SHARD_TRY(const Selection chosen, SelectExperts(row, bias, node.routing, ids));
      const size_t at = (first + token) * routes.top_k;
      for (size_t rank = 0; rank < routes.top_k; ++rank) {
        const uint32_t place = place_of[chosen.ids[rank]];
        routes.places[at + rank] = place;
        routes.gates[at + rank] = chosen.weights[rank] * node.scale(place);
      }
    }
    return Ok();
  });
}

// Runs the experts on the rows of a block of tokens, with the operations of a forward pass.
class BlockRunner {
 public:
  BlockRunner(Products& products, const NodeLayer& node) : products_(products), node_(node) {}

  Status Open() {
    SHARD_TRY(matrices_, LoadMatrices(node_.experts, products_.executor()));
    const auto hidden = static_cast<uint32_t>(node_.experts.hidden),
               width = static_cast<uint32_t>(node_.experts.width);
    for (Rows* rows : {&batch_.x, &batch_.sum, &batch_.in, &batch_.out, &batch_.zeros})
      SHARD_CHECK(Allocate(hidden, *rows));
    for (Rows* rows : {&batch_.gate, &batch_.up}) SHARD_CHECK(Allocate(width, *rows));
    batch_.activation = node_.form.activation;
    batch_.weigh_inputs = node_.form.weigh_inputs;
    return Ok();
  }

  Status Run(size_t first, size_t count) {
    rows_.resize(count * node_.experts.hidden);
    SHARD_CHECK(node_.inputs->Read(first, rows_));
    ExpertBatch batch = batch_;
    const auto some = static_cast<uint32_t>(count);
    for (Rows* part :
         {&batch.x, &batch.sum, &batch.in, &batch.out, &batch.zeros, &batch.gate, &batch.up})
      *part = part->Slice(0, some);
    products_.executor().Write(rows_, batch.x);
    const std::vector<ExpertRows> experts = ExpertsOf(first, count);
    batch.experts = experts;
    SHARD_CHECK(products_.executor().MixExperts(batch, nullptr));
    SHARD_CHECK(products_.executor().Read(batch.sum, rows_));
    return node_.outputs->Write(first, rows_);
  }

 private:
  Status Allocate(uint32_t width, Rows& rows) {
    const auto count = static_cast<uint32_t>(kTokensOfBlock);
    SHARD_TRY(BufferPtr buffer,
              products_.executor().Allocate(uint64_t{count} * width * sizeof(float)));
    rows = {buffer.get(), 0, count, width, width};
    buffers_.push_back(std::move(buffer));
    return Ok();
  }

  std::vector<ExpertRows> ExpertsOf(size_t first, size_t count) const {
    const Routes& routes = node_.routes;
    std::vector<ExpertRows> by_place(node_.experts.expert_ids.size());
    for (size_t token = 0; token < count; ++token) {
      for (size_t rank = 0; rank < routes.top_k; ++rank) {
        const size_t at = (first + token) * routes.top_k + rank;
        ExpertRows& expert = by_place[routes.places[at]];
        expert.rows.push_back(static_cast<uint32_t>(token));
        expert.gates.push_back(routes.gates[at]);
      }
    }
    std::vector<ExpertRows> picked;
    for (size_t place = 0; place < by_place.size(); ++place) {
      if (by_place[place].rows.empty()) continue;
      by_place[place].weights = &matrices_.experts[place];
      picked.push_back(std::move(by_place[place]));
    }
    return picked;
  }

  Products& products_;
  const NodeLayer& node_;
  NodeMatrices matrices_;
  std::vector<BufferPtr> buffers_;
  ExpertBatch batch_;
  std::vector<float> rows_;
};

}  // namespace

Result<Routes> ChooseExperts(const NodeLayer& node, std::span<const float> logits, size_t jobs) {
  Routes routes = EmptyRoutes(node, logits.size() / node.experts.expert_ids.size());
  SHARD_CHECK(ChooseBlock(node, logits, 0, jobs, routes));
  return routes;
}

Status RouteNode(Products& products, NodeLayer& node) {
  SHARD_TRY(const NodeMatrices matrices, LoadRouter(node.experts, products.executor()));
  const size_t width = node.experts.router_width, slots = node.experts.expert_ids.size();
  node.routes = EmptyRoutes(node, node.tokens());
  std::vector<float> rows, logits;
  for (size_t first = 0; first < node.tokens(); first += kTokensOfBlock) {
    const size_t count = std::min(kTokensOfBlock, node.tokens() - first);
    rows.resize(count * width);
    logits.resize(count * slots);
    SHARD_CHECK(node.router_inputs->Read(first, rows));
    SHARD_CHECK(products.Project(matrices.router, rows, logits));
    SHARD_CHECK(ChooseBlock(node, logits, first, products.jobs(), node.routes));
  }
  return Ok();
}

Status RunNode(Products& products, NodeLayer& node) {
  BlockRunner runner(products, node);
  SHARD_CHECK(runner.Open());
  for (size_t first = 0; first < node.tokens(); first += kTokensOfBlock) {
    SHARD_CHECK(CheckInterrupt());
    SHARD_CHECK(runner.Run(first, std::min(kTokensOfBlock, node.tokens() - first)));
  }
  return Ok();
}

Result<double> FoldError(const NodeLayer& node) {
  const size_t hidden = node.experts.hidden;
  std::vector<float> targets(hidden), outputs(hidden);
  double missed = 0, all = 0;
  for (size_t token = 0; token < node.tokens(); ++token) {
    const double weight = node.fold_weights[token];
    if (weight == 0) continue;
    SHARD_CHECK(node.targets->Read(token, targets));
    SHARD_CHECK(node.outputs->Read(token, outputs));
    double squares = 0, errors = 0;
    for (size_t i = 0; i < hidden; ++i) {
      const double target = targets[i], error = target - outputs[i];
      squares += target * target;
      errors += error * error;
    }
    missed += weight * errors;
    all += weight * squares;
  }
  // The share of the target that is missed, so that layers with large outputs compare with others.
  return all > 0 ? missed / all : 0;
}

std::vector<ExpertTokens> TokensOfExperts(const NodeLayer& node, bool fit) {
  std::vector<ExpertTokens> experts(node.experts.expert_ids.size());
  const Routes& routes = node.routes;
  for (size_t token = 0; token < node.tokens(); ++token) {
    if (fit && node.fit_weights[token] == 0) continue;
    for (size_t rank = 0; rank < routes.top_k; ++rank) {
      const size_t at = token * routes.top_k + rank;
      ExpertTokens& expert = experts[routes.places[at]];
      expert.tokens.push_back(static_cast<uint32_t>(token));
      expert.gates.push_back(routes.gates[at]);
    }
  }
  return experts;
}

std::vector<size_t> ChangingExperts(const NodeLayer& node, std::span<const ExpertTokens> tokens) {
  std::vector<size_t> places;
  for (size_t place = 0; place < tokens.size(); ++place) {
    if (!node.fixed[place] && !tokens[place].tokens.empty() &&
        tokens[place].tokens.size() >= node.least_tokens)
      places.push_back(place);
  }
  return places;
}

Status TakeSample(const NodeLayer& node, const ExpertTokens& tokens, size_t jobs,
                  ExpertSample& sample) {
  const size_t hidden = node.experts.hidden, count = tokens.tokens.size();
  sample.inputs.resize(count * hidden);
  SHARD_CHECK(node.inputs->Gather(tokens.tokens, sample.inputs, jobs));
  sample.gates = tokens.gates;
  sample.roots.resize(count);
  sample.residuals.resize(count * hidden);
  SHARD_CHECK(node.targets->Gather(tokens.tokens, sample.residuals, jobs));
  return TryPieces(count, kRowsOfSample, jobs, [&](size_t first, size_t end) -> Status {
    std::vector<float> output(hidden);
    for (size_t i = first; i < end; ++i) {
      SHARD_CHECK(node.outputs->Read(tokens.tokens[i], output));
      // A weight w of a squared error is a factor sqrt(w) on both sides of the equation.
      sample.roots[i] = std::sqrt(node.fit_weights[tokens.tokens[i]]);
      for (size_t column = 0; column < hidden; ++column) {
        float& residual = sample.residuals[i * hidden + column];
        residual = (residual - output[column]) * sample.roots[i];
      }
    }
    return Ok();
  });
}

Status ScaledActivations(Products& products, const NodeLayer& node, const MlpWeights& expert,
                         const ExpertSample& sample, std::vector<float>& scaled) {
  const size_t width = expert.inner();
  scaled.resize(sample.gates.size() * width);
  SHARD_CHECK(products.Activations(expert, node.form, sample.inputs, sample.gates, scaled));
  ForPieces(sample.roots.size(), kRowsOfSample, products.jobs(), [&](size_t first, size_t end) {
    for (size_t i = first; i < end; ++i) {
      if (sample.roots[i] == 1) continue;
      for (float& value : std::span(scaled).subspan(i * width, width)) value *= sample.roots[i];
    }
  });
  return Ok();
}

}  // namespace moepack::runtime
