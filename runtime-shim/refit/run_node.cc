// RunNode and RunDown (node_layer.h).
#include <algorithm>
#include <utility>
#include <vector>

#include "libshard/base/parallel.h"
#include "runtime-shim/cpu/row_kernels.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {
namespace {

// Tokens that run at once: on another executor, and on the host, where packing an expert's weights
// should be little beside the products with them.
constexpr size_t kTokensOfExecutor = 2048, kTokensOfHost = 8192;

// The rows of a block of tokens and their gates, by expert.
std::vector<ExpertRows> RowsByExpert(const NodeLayer& node, size_t first, size_t count) {
  const Routes& routes = node.routes;
  std::vector<ExpertRows> by_place(node.experts.expert_ids.size());
  for (size_t token = 0; token < count; ++token) {
    for (size_t rank = 0; rank < routes.top_k; ++rank) {
      const size_t at = (first + token) * routes.top_k + rank;
      ExpertRows& expert = by_place[routes.places[at]];
      expert.rows.push_back(static_cast<uint32_t>(token));
      expert.gates.push_back(routes.gates[at]);
    }
  }
  return by_place;
}

// Runs the experts with the operations of a forward pass.
class ExecutorRunner {
 public:
  ExecutorRunner(Products& products, NodeLayer& node) : products_(products), node_(node) {}

  Status Open() {
    node_.held.clear();
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

  size_t tokens_at_once() const { return kTokensOfExecutor; }

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
    const auto count = static_cast<uint32_t>(kTokensOfExecutor);
    SHARD_TRY(BufferPtr buffer,
              products_.executor().Allocate(uint64_t{count} * width * sizeof(float)));
    rows = {buffer.get(), 0, count, width, width};
    buffers_.push_back(std::move(buffer));
    return Ok();
  }

  std::vector<ExpertRows> ExpertsOf(size_t first, size_t count) const {
    std::vector<ExpertRows> picked;
    std::vector<ExpertRows> by_place = RowsByExpert(node_, first, count);
    for (size_t place = 0; place < by_place.size(); ++place) {
      if (by_place[place].rows.empty()) continue;
      by_place[place].weights = &matrices_.experts[place];
      picked.push_back(std::move(by_place[place]));
    }
    return picked;
  }

  Products& products_;
  NodeLayer& node_;
  NodeMatrices matrices_;
  std::vector<BufferPtr> buffers_;
  ExpertBatch batch_;
  std::vector<float> rows_;
};

// Runs one expert after another on the host, and keeps what multiplies the down projections.
class HostRunner {
 public:
  // With `again`, activations that are held are those of the experts.
  HostRunner(Products& products, NodeLayer& node, bool again)
      : products_(products), node_(node), again_(again && !node.held.empty()) {}

  Status Open() {
    const size_t places = node_.experts.expert_ids.size();
    done_.assign(places, 0);
    if (again_) return Ok();
    node_.held.clear();
    const uint64_t bytes = node_.routes.places.size() * node_.experts.width * sizeof(float);
    if (bytes > node_.activation_memory) return Ok();
    node_.held.resize(places);
    std::vector<size_t> chosen(places, 0);
    for (const uint32_t place : node_.routes.places) ++chosen[place];
    for (size_t place = 0; place < places; ++place) {
      node_.held[place].tokens.reserve(chosen[place]);
      node_.held[place].values.reserve(chosen[place] * node_.experts.width);
    }
    return Ok();
  }

  size_t tokens_at_once() const { return kTokensOfHost; }

  Status Run(size_t first, size_t count) {
    const size_t hidden = node_.experts.hidden;
    inputs_.resize(count * hidden);
    sums_.assign(count * hidden, 0);
    SHARD_CHECK(node_.inputs->Read(first, inputs_));
    const std::vector<ExpertRows> by_place = RowsByExpert(node_, first, count);
    for (size_t place = 0; place < by_place.size(); ++place) {
      if (by_place[place].rows.empty()) continue;
      SHARD_CHECK(CheckInterrupt());
      SHARD_TRY(NodeMatrices matrices, LoadExpert(node_.experts, place, products_.executor()));
      SHARD_CHECK(AddExpert(place, by_place[place], matrices.experts[0], first));
    }
    return node_.outputs->Write(first, sums_);
  }

 private:
  Status AddExpert(size_t place, const ExpertRows& rows, const MlpWeights& expert, size_t first) {
    SHARD_TRY(const std::span<const float> activations, ActivationsOf(place, rows, expert, first));
    const size_t hidden = node_.experts.hidden;
    rows_.resize(rows.rows.size() * hidden);
    SHARD_CHECK(products_.Apply({expert.down.weight, {}}, activations, rows_));
    const std::vector<float>& all = node_.experts.down_bias;
    const auto bias =
        all.empty() ? std::span<const float>() : std::span(all).subspan(place * hidden, hidden);
    ForPieces(rows.rows.size(), RowsWorthAThread(hidden), products_.jobs(),
              [&](size_t begin, size_t end) {
                for (size_t i = begin; i < end; ++i) {
                  const auto sum = std::span(sums_).subspan(rows.rows[i] * hidden, hidden);
                  AddFast(sum, std::span(rows_).subspan(i * hidden, hidden), 1);
                  if (!bias.empty())
                    AddFast(sum, bias, node_.form.weigh_inputs ? 1 : rows.gates[i]);
                }
              });
    return Ok();
  }

  Result<std::span<const float>> ActivationsOf(size_t place, const ExpertRows& rows,
                                               const MlpWeights& expert, size_t first) {
    const size_t hidden = node_.experts.hidden, width = node_.experts.width;
    const size_t values = rows.rows.size() * width;
    if (again_) {
      const auto found = std::span<const float>(node_.held[place].values);
      return found.subspan(std::exchange(done_[place], done_[place] + values), values);
    }
    gathered_.clear();
    for (const uint32_t row : rows.rows) {
      const auto input = std::span(inputs_).subspan(row * hidden, hidden);
      gathered_.insert(gathered_.end(), input.begin(), input.end());
    }
    activations_.resize(values);
    SHARD_CHECK(products_.Activations(expert, node_.form, gathered_, rows.gates, activations_));
    if (!node_.held.empty()) {
      HeldActivations& held = node_.held[place];
      for (const uint32_t row : rows.rows)
        held.tokens.push_back(static_cast<uint32_t>(first) + row);
      held.values.insert(held.values.end(), activations_.begin(), activations_.end());
    }
    return std::span<const float>(activations_);
  }

  Products& products_;
  NodeLayer& node_;
  const bool again_;
  std::vector<size_t> done_;  // values of each expert's held activations that were used
  std::vector<float> inputs_, sums_, rows_, gathered_, activations_;
};

template <class Runner>
Status RunBlocks(Runner runner, const NodeLayer& node) {
  SHARD_CHECK(runner.Open());
  const size_t most = runner.tokens_at_once();
  for (size_t first = 0; first < node.tokens(); first += most) {
    SHARD_CHECK(CheckInterrupt());
    SHARD_CHECK(runner.Run(first, std::min(most, node.tokens() - first)));
  }
  return Ok();
}

}  // namespace

Status RunNode(Products& products, NodeLayer& node) {
  if (products.on_host()) return RunBlocks(HostRunner(products, node, false), node);
  return RunBlocks(ExecutorRunner(products, node), node);
}

Status RunDown(Products& products, NodeLayer& node) {
  if (products.on_host()) return RunBlocks(HostRunner(products, node, true), node);
  return RunBlocks(ExecutorRunner(products, node), node);
}

}  // namespace moepack::runtime
