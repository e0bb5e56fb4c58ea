// A node's experts during a tuning, on an executor with dense algebra.
#include <algorithm>
#include <utility>

#include "libshard/base/parallel.h"
#include "runtime-shim/gradient/adam.h"
#include "runtime-shim/refit/tuned_node.h"

namespace moepack::runtime {
namespace {

// What Adam keeps of an array of all experts: [n * rows, columns], like the values.
struct Moments {
  BufferPtr firsts, seconds;
};

class DeviceTunedNode : public TunedNode {
 public:
  DeviceTunedNode(std::unique_ptr<DeviceNode> node, std::span<const size_t> changing)
      : node_(std::move(node)),
        changing_(changing.begin(), changing.end()),
        rates_(changing.size()),
        steps_(changing.size(), 0) {}

  // Makes the moments, and measures the values and the targets.
  Status Open() {
    const size_t experts = node_->node().experts.expert_ids.size();
    for (size_t array = 0; array < std::size(kExpertArrays); ++array) {
      const Rows one = node_->expert(0).*kExpertArrays[array].rows;
      const uint64_t bytes = one.values() * experts * sizeof(float);
      if (bytes == 0) continue;
      SHARD_TRY(moments_[array].firsts, executor().Allocate(bytes));
      SHARD_TRY(moments_[array].seconds, executor().Allocate(bytes));
    }
    for (size_t i = 0; i < changing_.size(); ++i) MeasureExpert(i);
    SHARD_TRY(target_norms_, NormsOf(node_->targets()));
    SHARD_TRY(ones_, TakeOnes());
    return Ok();
  }

  Result<std::vector<float>> Logits(std::span<const uint32_t> tokens) override {
    const NodeLayer& node = node_->node();
    const size_t experts = node.experts.expert_ids.size();
    SHARD_TRY(router_inputs_,
              router_inputs_table_.Take(executor(), tokens.size(), node.experts.router_width));
    if (node.router_inputs == node.inputs) {
      executor().Gather(node_->inputs(), tokens, {}, router_inputs_);
    } else {
      std::vector<float> rows(router_inputs_.values());
      SHARD_CHECK(node.router_inputs->Gather(tokens, rows));
      executor().Write(rows, router_inputs_);
    }
    SHARD_TRY(const Rows rows, logits_.Take(executor(), tokens.size(), experts));
    SHARD_TRY(const NodeMatrices matrices, LoadRouter(node.experts, executor()));
    executor().Project(matrices.router, router_inputs_, rows);
    std::vector<float> logits(rows.values());
    SHARD_CHECK(executor().Read(rows, logits));
    return logits;
  }

  Result<std::vector<double>> RouterGradient(std::span<const float> by_logit) override {
    const size_t experts = node_->node().experts.expert_ids.size();
    SHARD_TRY(const Rows rows, logits_.Take(executor(), router_inputs_.count, experts));
    SHARD_TRY(const Doubles sums,
              router_sums_.TakeDoubles(executor(), experts, router_inputs_.width));
    executor().Write(by_logit, rows);
    algebra().Clear(sums);
    algebra().AddProduct(rows, router_inputs_, kTokensOfSum, sums);
    std::vector<double> by_row(experts * router_inputs_.width);
    SHARD_CHECK(algebra().Read(sums, by_row));
    return by_row;
  }

  Status Run(std::span<const uint32_t> tokens, const Routes& routes) override {
    tokens_.assign(tokens.begin(), tokens.end());
    gates_ = routes.gates;
    chosen_ = ChoicesOf(routes, node_->node().experts.expert_ids.size());
    SHARD_CHECK(TakeRows());
    const std::vector<float> minus(tokens.size(), -1);
    executor().Gather(node_->targets(), tokens, minus, residuals_);
    uint32_t first = 0;
    for (size_t place = 0; place < chosen_.size(); ++place) {
      SHARD_CHECK(CheckInterrupt());
      const auto count = static_cast<uint32_t>(chosen_[place].rows.size());
      if (count > 0) SHARD_CHECK(RunExpert(place, first, count));
      first += count;
    }
    return Ok();
  }

  Result<std::vector<TokenSquares>> Measure() override {
    SHARD_TRY(const std::vector<float> norms, NormsOf(residuals_));
    std::vector<TokenSquares> squares;
    for (size_t row = 0; row < tokens_.size(); ++row) {
      const double missed = norms[row], target = target_norms_[tokens_[row]];
      squares.push_back({missed * missed, target * target});
    }
    return squares;
  }

  Result<std::vector<double>> Move(std::span<const float> factors, double rate) override {
    executor().ScaleRows(residuals_, factors);
    uint32_t first = 0;
    for (size_t place = 0; place < chosen_.size(); ++place) {
      const auto count = static_cast<uint32_t>(chosen_[place].rows.size());
      if (count > 0) SHARD_CHECK(Back(place, first, count, rate));
      first += count;
    }
    std::vector<float> dots(first);
    SHARD_CHECK(executor().Read(dots_.Slice(0, first), dots));
    std::vector<double> by_gate(gates_.size());
    size_t at = 0;
    for (const ExpertChoices& expert : chosen_) {
      for (const size_t choice : expert.choices) by_gate[choice] = dots[at++];
    }
    return by_gate;
  }

  Status Finish() override { return node_->ReadExperts(changing_); }

 private:
  Executor& executor() const { return node_->executor(); }
  DenseAlgebra& algebra() const { return node_->algebra(); }
  bool weighs_inputs() const { return node_->node().form.weigh_inputs; }

  void MeasureExpert(size_t i) {
    const RefittedExperts& all = node_->node().experts;
    for (const ExpertArray& array : kExpertArrays) {
      const std::vector<float>& values = all.*array.values;
      const size_t one = values.size() / all.expert_ids.size();
      rates_[i].emplace_back(std::span(values).subspan(changing_[i] * one, one));
    }
  }

  Result<std::vector<float>> NormsOf(const Rows& rows) {
    SHARD_TRY(const Rows sizes, sizes_of_rows_.Take(executor(), rows.count, 2));
    executor().MeasureRows(rows, sizes);
    std::vector<float> values(sizes.values()), norms;
    SHARD_CHECK(executor().Read(sizes, values));
    for (size_t i = 0; i < values.size(); i += 2) norms.push_back(values[i]);
    return norms;
  }

  // A product with them adds up rows.
  Result<Rows> TakeOnes() {
    const Rows& all = node_->targets();
    SHARD_TRY(const Rows ones, ones_table_.Take(executor(), 1, all.count));
    executor().Write(std::vector<float>(all.count, 1), ones);
    return ones;
  }

  // Rows for the batch and its choices.
  Status TakeRows() {
    const size_t choices = gates_.size(), hidden = node_->inputs().width;
    const size_t width = node_->node().experts.width;
    SHARD_TRY(residuals_, residuals_table_.Take(executor(), tokens_.size(), hidden));
    SHARD_TRY(inputs_, inputs_table_.Take(executor(), choices, hidden));
    SHARD_TRY(outputs_, outputs_table_.Take(executor(), choices, hidden));
    SHARD_TRY(first_, first_table_.Take(executor(), choices, width));
    SHARD_TRY(second_, second_table_.Take(executor(), choices, width));
    SHARD_TRY(activations_, activations_table_.Take(executor(), choices, width));
    SHARD_TRY(back_, back_table_.Take(executor(), choices, width));
    SHARD_TRY(dots_, dots_table_.Take(executor(), choices, 1));
    return Ok();
  }

  std::vector<float> GatesOf(size_t place) const {
    std::vector<float> gates;
    for (const size_t choice : chosen_[place].choices) gates.push_back(gates_[choice]);
    return gates;
  }

  // The choices of an expert have rows from `first` on.
  Status RunExpert(size_t place, uint32_t first, uint32_t count) {
    const DeviceExpert own = node_->expert(place);
    const std::vector<uint32_t>& rows = chosen_[place].rows;
    const std::vector<float> gates = GatesOf(place), none;
    std::vector<uint32_t> tokens;
    for (const uint32_t row : rows) tokens.push_back(tokens_[row]);
    const Rows in = inputs_.Slice(first, count), out = outputs_.Slice(first, count);
    const Rows gate = first_.Slice(first, count);
    const Rows up = own.gate.buffer != nullptr ? second_.Slice(first, count) : Rows();
    const Rows activations = activations_.Slice(first, count);
    executor().Gather(node_->inputs(), tokens, weighs_inputs() ? gates : none, in);
    node_->Project(in, own.first(), own.first_bias(), gate);
    if (up.buffer != nullptr) node_->Project(in, own.up, own.up_bias, up);
    algebra().ActivateWithSlopes(node_->node().form.activation, gate, up, activations);
    node_->Project(activations, own.down, own.down_bias, out);
    executor().ScatterAdd(residuals_, rows, weighs_inputs() ? std::vector<float>(count, 1) : gates,
                          out);
    return Ok();
  }

  // As TunedExpert::Back; the rows of the expert's outputs take its gradient.
  Status Back(size_t place, uint32_t first, uint32_t count, double rate) {
    const DeviceExpert own = node_->expert(place);
    const Rows by_sum = outputs_.Slice(first, count), by_activation = back_.Slice(first, count);
    const Rows dots = dots_.Slice(first, count);
    executor().Gather(residuals_, chosen_[place].rows, {}, by_sum);
    algebra().Multiply(Straight(by_sum), Straight(own.down), by_activation);
    // r.o = r.(W a + c) = (W'r).a + r.c, so that outputs need not be kept.
    algebra().Dots(by_activation, activations_.Slice(first, count), dots);
    if (own.down_bias.buffer != nullptr) {
      SHARD_TRY(const Rows of_bias, bias_dots_.Take(executor(), count, 1));
      algebra().Multiply(Straight(by_sum), Turned(own.down_bias), of_bias);
      executor().Add(dots, of_bias, 1);
    }
    const auto at = std::lower_bound(changing_.begin(), changing_.end(), place);
    if (at == changing_.end() || *at != place) return Ok();
    if (!weighs_inputs()) {
      const std::vector<float> gates = GatesOf(place);
      executor().ScaleRows(by_sum, gates);
      executor().ScaleRows(by_activation, gates);
    }
    return MoveExpert(static_cast<size_t>(at - changing_.begin()), first, count, rate);
  }

  Status MoveExpert(size_t i, uint32_t first, uint32_t count, double rate) {
    const DeviceExpert own = node_->expert(changing_[i]);
    const Rows by_sum = outputs_.Slice(first, count), by_activation = back_.Slice(first, count);
    const Rows in = inputs_.Slice(first, count), gate = first_.Slice(first, count);
    const Mover mover = {i, ++steps_[i], rate};
    SHARD_CHECK(MoveLinear(mover, kDown, by_sum, activations_.Slice(first, count)));
    // dL/d(projection) = dL/da * da/d(projection)
    algebra().MultiplyValues(gate, by_activation);
    if (own.gate.buffer == nullptr) return MoveLinear(mover, kUp, gate, in);
    SHARD_CHECK(MoveLinear(mover, kGate, gate, in));
    const Rows up = second_.Slice(first, count);
    algebra().MultiplyValues(up, by_activation);
    return MoveLinear(mover, kUp, up, in);
  }

  // The n-th step of the i-th changing expert.
  struct Mover {
    size_t i;
    uint32_t n;
    double rate;
  };

  // A matrix's gradient is left' right, and its bias's the sum of the rows of `left`.
  Status MoveLinear(const Mover& mover, size_t array, const Rows& left, const Rows& right) {
    SHARD_TRY(const Rows slopes, slopes_.Take(executor(), left.width, right.width));
    algebra().Multiply(Turned(left), Straight(right), slopes);
    Descend(mover, array, slopes);
    const size_t bias = array + kMatrices;
    if (moments_[bias].firsts == nullptr) return Ok();
    SHARD_TRY(const Rows sums, sums_.Take(executor(), 1, left.width));
    const Rows ones = {ones_.buffer, ones_.offset, 1, left.count, left.count};
    algebra().Multiply(Straight(ones), Straight(left), sums);
    Descend(mover, bias, sums);
    return Ok();
  }

  void Descend(const Mover& mover, size_t array, const Rows& slopes) {
    const Rows values = node_->expert(changing_[mover.i]).*kExpertArrays[array].rows;
    Rows firsts = values, seconds = values;
    firsts.buffer = moments_[array].firsts.get();
    seconds.buffer = moments_[array].seconds.get();
    algebra().Descend(NthStep(rates_[mover.i][array].Of(mover.rate), mover.n),
                      {slopes, firsts, seconds, values});
  }

  const std::unique_ptr<DeviceNode> node_;
  const std::vector<size_t> changing_;            // places
  std::vector<std::vector<RelativeRate>> rates_;  // of the arrays of each changing expert
  std::vector<uint32_t> steps_;                   // of each changing expert
  Moments moments_[std::size(kExpertArrays)];
  std::vector<float> target_norms_;  // of all tokens
  // Of the last Run: its tokens, and rows for its choices, expert after expert. first_ and second_
  // have what is activated, and then the slopes of the activations.
  std::vector<uint32_t> tokens_;
  std::vector<float> gates_;
  std::vector<ExpertChoices> chosen_;
  Rows residuals_, inputs_, outputs_, first_, second_, activations_, back_, dots_, ones_;
  DeviceTable residuals_table_, inputs_table_, outputs_table_, first_table_, second_table_,
      activations_table_, back_table_, dots_table_, ones_table_;
  DeviceTable sizes_of_rows_, bias_dots_, slopes_, sums_;
  Rows router_inputs_;  // of the last Logits
  DeviceTable router_inputs_table_, logits_, router_sums_;
};

}  // namespace

Result<std::unique_ptr<TunedNode>> TuneOnDevice(Products& products, NodeLayer& node,
                                                std::span<const size_t> changing, size_t tokens) {
  const uint64_t hidden = node.experts.hidden, width = node.experts.width;
  const uint64_t values = node.experts.expert_ids.size() * 3 * hidden * width;
  const uint64_t choices = tokens * node.routing.top_k;
  const uint64_t more =
      2 * values + hidden * width + choices * (2 * hidden + 4 * width) + 2 * tokens * hidden;
  SHARD_TRY(std::unique_ptr<DeviceNode> moved,
            DeviceNode::Make(products, node, more * sizeof(float)));
  if (moved == nullptr) return std::unique_ptr<TunedNode>();
  auto tuned = std::make_unique<DeviceTunedNode>(std::move(moved), changing);
  SHARD_CHECK(tuned->Open());
  return std::unique_ptr<TunedNode>(std::move(tuned));
}

}  // namespace moepack::runtime
