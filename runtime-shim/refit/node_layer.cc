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

Status TakeSample(const NodeLayer& node, std::span<const uint32_t> tokens, size_t jobs,
                  ExpertSample& sample) {
  const size_t hidden = node.experts.hidden, count = tokens.size();
  sample.roots.resize(count);
  sample.residuals.resize(count * hidden);
  SHARD_CHECK(node.targets->Gather(tokens, sample.residuals, jobs));
  return TryPieces(count, kRowsOfSample, jobs, [&](size_t first, size_t end) -> Status {
    std::vector<float> output(hidden);
    for (size_t i = first; i < end; ++i) {
      SHARD_CHECK(node.outputs->Read(tokens[i], output));
      // A weight w of a squared error is a factor sqrt(w) on both sides of the equation.
      sample.roots[i] = std::sqrt(node.fit_weights[tokens[i]]);
      for (size_t column = 0; column < hidden; ++column) {
        float& residual = sample.residuals[i * hidden + column];
        residual = (residual - output[column]) * sample.roots[i];
      }
    }
    return Ok();
  });
}

Status TakeActivations(Products& products, const NodeLayer& node, size_t place,
                       const ExpertTokens& tokens, std::vector<float>& activations) {
  const size_t width = node.experts.width, hidden = node.experts.hidden;
  activations.resize(tokens.tokens.size() * width);
  if (!node.held.empty()) {
    const HeldActivations& held = node.held[place];
    const float* from = held.values.data();
    float* to = activations.data();
    size_t i = 0;
    for (const uint32_t token : held.tokens) {
      if (i < tokens.tokens.size() && tokens.tokens[i] == token)
        std::copy_n(from, width, to + i++ * width);
      from += width;
    }
    return Ok();
  }
  std::vector<float> inputs(tokens.tokens.size() * hidden);
  SHARD_CHECK(node.inputs->Gather(tokens.tokens, inputs, products.jobs()));
  SHARD_TRY(const NodeMatrices matrices, LoadExpert(node.experts, place, products.executor()));
  return products.Activations(matrices.experts[0], node.form, inputs, tokens.gates, activations);
}

Status ScaledActivations(Products& products, const NodeLayer& node, size_t place,
                         const ExpertTokens& tokens, std::vector<float>& scaled) {
  SHARD_CHECK(TakeActivations(products, node, place, tokens, scaled));
  std::vector<float> roots;
  for (const uint32_t token : tokens.tokens) roots.push_back(std::sqrt(node.fit_weights[token]));
  ScaleRows(roots, products.jobs(), scaled);
  return Ok();
}

}  // namespace moepack::runtime
