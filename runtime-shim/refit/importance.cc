#include "runtime-shim/refit/importance.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/imatrix.h"

namespace moepack::runtime {
namespace {

// Tokens whose inputs and activations are in memory at once.
constexpr size_t kTokensOfMoments = 4096;

// For one expert: weighted sums of squares of the inputs of gate and up [H] and of down [F].
struct ExpertMoments {
  std::vector<double> inputs, activations;
  double weight = 0;
  uint64_t tokens = 0;
};

void AddSquaresOf(std::span<const float> rows, std::span<const double> weights,
                  std::vector<double>& sums) {
  const size_t width = sums.size();
  for (size_t row = 0; row < weights.size(); ++row) {
    for (size_t column = 0; column < width; ++column) {
      const double value = rows[row * width + column];
      sums[column] += weights[row] * value * value;
    }
  }
}

// Some of an expert's tokens: those that count.
struct CountedTokens {
  std::vector<uint32_t> tokens;
  std::vector<float> gates;
  std::vector<double> weights;
};

CountedTokens CountedOf(const NodeLayer& node, const ExpertTokens& expert) {
  CountedTokens counted;
  for (size_t i = 0; i < expert.tokens.size(); ++i) {
    const uint32_t token = expert.tokens[i];
    const float weight = node.fit_weights[token] + node.fold_weights[token];
    if (weight <= 0) continue;
    counted.tokens.push_back(token);
    counted.gates.push_back(expert.gates[i]);
    counted.weights.push_back(weight);
  }
  return counted;
}

Result<ExpertMoments> MomentsOf(Products& products, const NodeLayer& node, const MlpWeights& expert,
                                const CountedTokens& counted) {
  const size_t hidden = node.experts.hidden, width = node.experts.width;
  ExpertMoments moments;
  moments.inputs.resize(hidden);
  moments.activations.resize(width);
  moments.tokens = counted.tokens.size();
  std::vector<float> rows, activations, gates;
  for (size_t first = 0; first < counted.tokens.size(); first += kTokensOfMoments) {
    const size_t count = std::min(kTokensOfMoments, counted.tokens.size() - first);
    rows.resize(count * hidden);
    activations.resize(count * width);
    SHARD_CHECK(node.inputs->Gather(std::span(counted.tokens).subspan(first, count), rows));
    // Gates are part of a matrix's input only if they weigh the experts' inputs.
    gates.assign(count, 1);
    if (node.form.weigh_inputs)
      std::copy_n(counted.gates.begin() + static_cast<ptrdiff_t>(first), count, gates.begin());
    SHARD_CHECK(products.Activations(expert, node.form, rows, gates, activations));
    for (size_t row = 0; row < count; ++row) {
      for (float& value : std::span(rows).subspan(row * hidden, hidden)) value *= gates[row];
    }
    const auto weights = std::span(counted.weights).subspan(first, count);
    AddSquaresOf(rows, weights, moments.inputs);
    AddSquaresOf(activations, weights, moments.activations);
    for (const double weight : weights) moments.weight += weight;
  }
  return moments;
}

// Matrices of a layer's experts, and whether their inputs are the activations.
std::map<std::string, bool> MatricesOf(std::span<const ExpertSet> sets, uint32_t layer) {
  std::map<std::string, bool> names;
  const std::string block = Cat("blk.", layer, ".");
  for (const ExpertSet& set : sets) {
    for (const HostTensor& tensor : set.tensors) {
      if (tensor.name.starts_with(block) && tensor.name.ends_with("_exps.weight"))
        names[tensor.name] = tensor.name.starts_with(block + "ffn_down");
    }
  }
  return names;
}

// Sets row `row` of `count` from the moments.
Status AddRow(const std::string& name, const std::vector<double>& sums,
              const ExpertMoments& moments, size_t row, size_t count, ImatrixEntry& entry) {
  entry.sums.resize(count * sums.size());
  entry.counts.resize(count);
  if (moments.weight <= 0) return Ok();
  // llama.cpp divides a sum by its count of tokens, so weighted sums are scaled to what that
  // division expects.
  const double scale = static_cast<double>(moments.tokens) / moments.weight;
  for (size_t column = 0; column < sums.size(); ++column) {
    float& sum = entry.sums[row * sums.size() + column];
    sum += static_cast<float>(sums[column] * scale);
    if (std::isfinite(sum)) continue;
    return Error{Code::kCorrupt,
                 Cat("inputs of ", Quoted(name), ", row ", row,
                     ": expected a sum of squares that F32 holds, found ", sums[column] * scale),
                 "the weights of this layer or of one before may be corrupt"};
  }
  entry.counts[row] += static_cast<float>(moments.tokens);
  return Ok();
}

}  // namespace

Status RefitImportance::Add(Products& products, std::span<const ExpertSet> sets,
                            const NodeLayer& node, bool own) {
  const ExpertIds& ids = node.experts.expert_ids;
  const std::map<std::string, bool> matrices = MatricesOf(sets, node.experts.layer);
  const auto changed = static_cast<size_t>(std::count(node.fixed.begin(), node.fixed.end(), false));
  SHARD_TRY(const NodeMatrices loaded, LoadMatrices(node.experts, products.executor()));
  const std::vector<ExpertTokens> tokens = TokensOfExperts(node, false);
  size_t slot = 0;
  for (size_t place = 0; place < ids.size(); ++place) {
    SHARD_CHECK(CheckInterrupt());
    SHARD_TRY(const ExpertMoments moments,
              MomentsOf(products, node, loaded.experts[place], CountedOf(node, tokens[place])));
    for (const auto& [name, down] : matrices) {
      const std::vector<double>& sums = down ? moments.activations : moments.inputs;
      // One entry for all nodes together serves readers that know no groups.
      SHARD_CHECK(
          AddRow(name, sums, moments, ids[place], node.routing.expert_count, entries_[name]));
      // Only refitted experts differ from group to group.
      if (!own || node.fixed[place]) continue;
      const std::string mine = GroupEntryName(node.experts.group, name);
      SHARD_CHECK(AddRow(mine, sums, moments, slot, changed, entries_[mine]));
    }
    if (!node.fixed[place]) ++slot;
  }
  return Ok();
}

}  // namespace moepack::runtime
