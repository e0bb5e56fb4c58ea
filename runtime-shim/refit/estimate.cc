#include "runtime-shim/refit/estimate.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string_view>

#include "libshard/base/text/text.h"
#include "libshard/model/gguf_keys.h"
#include "runtime-shim/refit/refill.h"
#include "runtime-shim/refit/ridge.h"
#include "runtime-shim/refit/router_fit.h"
#include "runtime-shim/refit/router_sample.h"
#include "runtime-shim/refit/tune.h"
#include "runtime-shim/refit/tuned_node.h"
#include "runtime-shim/refit/twins.h"
#include "runtime-shim/session/device_model.h"
#include "runtime-shim/session/layer_pass.h"

namespace moepack::runtime {
namespace {

constexpr uint64_t kDouble = sizeof(double);

// The numbers that determine the work for one layer of one node.
struct LayerShape {
  double tokens = 0, hidden = 0, width = 0, chosen = 0;  // T, H, F, k
  double kept = 0, all = 0;                              // experts of the node, of the layer
  bool searches_bias = false;                            // one that affects only the choice
  double matrix() const { return hidden * width; }
  // Gate, up and down.
  double expert() const { return 3 * matrix(); }  // multiplications per token
  double choices() const { return tokens * chosen; }
  // Of an expert, if all are chosen equally often; and those with which it scores neurons exactly:
  // every n-th (refill.cc).
  double own_tokens() const { return choices() / kept; }
  double scored() const {
    const double wanted = static_cast<double>(kScoredTokens);
    return own_tokens() / std::max(1.0, std::floor(own_tokens() / wanted));
  }
  double sampled(const RefitOptions& options) const {
    return static_cast<double>(ScoredRows(
        static_cast<uint64_t>(kept), static_cast<uint64_t>(chosen),
        static_cast<uint64_t>(all * width), static_cast<uint64_t>(tokens), ScoredMemory(options)));
  }
};

// What is held, activations are not computed again.
double RidgeProducts(const LayerShape& shape, bool joint, uint32_t sweeps) {
  const double width = shape.width;
  if (joint) {
    const double size = shape.kept * width;
    return shape.choices() *
               (width * width / 2 + shape.matrix() + (shape.chosen - 1) * width * width / 2) +
           // A Cholesky factorization takes n^3 / 6 multiplications, and n^2 for each column that
           // is solved.
           size * size * (size / 6 + shape.hidden) + shape.choices() * shape.matrix();
  }
  return shape.choices() * (width * width / 2 + sweeps * 2 * shape.matrix()) +
         shape.kept * width * width * (width / 6 + sweeps * shape.hidden);
}

// With tokens spread evenly over the experts.
double RefillProducts(const LayerShape& shape, const RefitOptions& options) {
  // The own neurons and, by default, as many that join.
  const double pool = shape.width, joined = 2 * shape.width;
  const double directions = std::min(shape.hidden, static_cast<double>(kDirections));
  return shape.sampled(options) * shape.all * shape.width *
             (2 * shape.hidden + shape.chosen * directions) +
         shape.kept * shape.scored() * kCandidates * pool * 3 * shape.hidden +
         // The activations of those that join, the normal matrix, and the outputs before and after.
         shape.choices() * (2 * pool * shape.hidden + joined * joined / 2 + joined * shape.hidden +
                            2 * shape.matrix()) +
         shape.kept * joined * joined * (joined / 2 + 2 * shape.hidden);
}

double RouterSampleSize(const LayerShape& shape) {
  return std::min(static_cast<double>(RouterOptions().tokens), shape.tokens);
}

// The outputs of all experts for the tokens of the sample, and their products.
double RouterSampleProducts(const LayerShape& shape) {
  return RouterSampleSize(shape) * shape.kept * (shape.expert() + shape.kept * shape.hidden / 2);
}

double RouterProducts(const LayerShape& shape) {
  const RouterOptions router;
  return RouterSampleProducts(shape) + 2.0 * router.steps *
                                           std::min<double>(router.batch, RouterSampleSize(shape)) *
                                           shape.kept * shape.hidden;
}

double TuneTokens(const LayerShape& shape) {
  return static_cast<double>(TokensOfUpdate(TuneOptions(), static_cast<uint64_t>(shape.kept),
                                            static_cast<uint64_t>(shape.chosen),
                                            static_cast<uint64_t>(shape.tokens)));
}

// Three projections forward, the gradients of their weights, and back through one of them. A bias
// that affects only the choice is searched afterwards, on the router's sample.
double TuneProducts(const LayerShape& shape, uint32_t updates) {
  return 7.0 / 3 * updates * TuneTokens(shape) * shape.chosen * shape.expert() +
         (shape.searches_bias ? RouterSampleProducts(shape) : 0);
}

// Per token: about four square matrices.
double AttentionProducts(const ModelSpec& spec) {
  const double width = spec.width;
  return 4 * width * width;
}

// The activations of a node's experts, if they are held.
uint64_t HeldBytes(const LayerShape& shape, const RefitOptions& options) {
  const uint64_t bytes = static_cast<uint64_t>(shape.choices() * shape.width) * sizeof(float);
  return bytes <= options.activation_memory() ? bytes : 0;
}

// What the rows of an expert's tokens take: inputs, residuals and outputs (H each), and
// activations.
uint64_t SampleBytes(const LayerShape& shape, uint64_t activations) {
  return static_cast<uint64_t>(shape.own_tokens() *
                               (3 * shape.hidden + static_cast<double>(activations))) *
         sizeof(float);
}

// What each step has of a layer of one node besides the rows of all tokens, and activations that
// are held.
uint64_t RidgeBytes(const LayerShape& shape, bool joint, uint64_t memory) {
  const auto width = static_cast<uint64_t>(shape.width), kept = static_cast<uint64_t>(shape.kept),
             hidden = static_cast<uint64_t>(shape.hidden);
  const uint64_t sample = SampleBytes(shape, width);
  if (joint) {
    const uint64_t activations = static_cast<uint64_t>(shape.choices()) * width * sizeof(float);
    return kept * width * (kept * width + hidden) * kDouble + activations + sample;
  }
  // The one of the turn besides those that are kept.
  return sample +
         ((FactorsHeld(kept, width, hidden, memory) + 1) * width + hidden) * width * kDouble;
}

uint64_t RefillBytes(const LayerShape& shape, const RefitOptions& options) {
  const auto width = static_cast<uint64_t>(shape.width),
             hidden = static_cast<uint64_t>(shape.hidden), all = static_cast<uint64_t>(shape.all);
  // A pool has at most the neurons of all other experts.
  const uint64_t others = (all - 1) * width;
  const uint64_t pool = std::min(options.pool > 0 ? options.pool : width, others);
  const uint64_t candidates = std::min(kCandidates * pool, others), joined = width + pool;
  const uint64_t neurons = 2 * candidates * hidden * sizeof(float);
  const uint64_t sampled = ScoredBytes(static_cast<uint64_t>(shape.sampled(options)), all * width);
  // Inputs and residuals, what is explained of them, and activations.
  const auto scored =
      static_cast<uint64_t>(shape.scored() * (2 * shape.hidden + static_cast<double>(candidates))) *
          sizeof(float) +
      candidates * hidden * sizeof(float);
  return joined * (2 * joined + 2 * hidden) * kDouble + neurons + sampled + scored +
         SampleBytes(shape, 2 * joined);
}

uint64_t RouterBytes(const LayerShape& shape, uint64_t router_width, uint64_t memory) {
  const auto tokens = static_cast<uint64_t>(shape.tokens), kept = static_cast<uint64_t>(shape.kept),
             hidden = static_cast<uint64_t>(shape.hidden);
  const uint64_t one = RouterSampleBytes(kept, router_width);
  const uint64_t sample = std::min(tokens, RouterSampleTokens(one, memory, RouterOptions().tokens));
  // Of a block: the experts' outputs, inputs and targets.
  return sample * one +
         std::min<uint64_t>(tokens, kTokensOfOutputs) * (kept + 2) * hidden * sizeof(float);
}

// Two moments of every value; of a batch, the inputs of experts and router, targets and residuals,
// and of each choice its inputs and outputs and three rows of F; of each expert that runs at once
// the gradient of a matrix, a packed matrix, and rows of its tokens. All of it is gone before a
// bias is searched.
uint64_t TuneBytes(const LayerShape& shape, uint64_t router_width, const RefitOptions& options) {
  const double tokens = TuneTokens(shape);
  const double floats = 2 * shape.kept * shape.expert() + tokens * 4 * shape.hidden +
                        tokens * shape.chosen * (2 * shape.hidden + 3 * shape.width);
  const double of_one =
      2 * shape.matrix() + tokens * shape.chosen / shape.kept * (shape.hidden + shape.width);
  const uint64_t tuning = (static_cast<uint64_t>(floats) +
                           ExpertsAtOnce(options.jobs, static_cast<size_t>(shape.kept)) *
                               static_cast<uint64_t>(of_one)) *
                          sizeof(float);
  return std::max(
      tuning, shape.searches_bias ? RouterBytes(shape, router_width, options.matrix_memory()) : 0);
}

// Of `groups`, or of all, those that are refitted; the others are like one of them.
std::vector<size_t> DistinctNodes(const Plan& plan, const std::vector<uint32_t>* groups) {
  const std::vector<uint32_t> twins = FirstTwins(plan, {});
  std::set<uint32_t> seen;
  std::vector<size_t> nodes;
  for (uint32_t group = 0; group < twins.size(); ++group) {
    const bool wanted =
        groups == nullptr || std::find(groups->begin(), groups->end(), group) != groups->end();
    if (wanted && seen.insert(twins[group]).second) nodes.push_back(group);
  }
  return nodes;
}

// The bytes of the experts of the largest layer in the source.
uint64_t LargestLayer(const LaterExperts& later) {
  std::map<uint64_t, uint64_t> layers;
  for (const HostTensor& tensor : later.tensors) {
    uint64_t values = 1;
    for (const uint64_t size : tensor.shape) values *= size;
    const std::optional<BlockName> name = ParseBlockName(tensor.name);
    layers[name ? name->block : 0] += tensor.format->BytesFor(values).value_or(0);
  }
  uint64_t largest = 0;
  for (const auto& [layer, bytes] : layers) largest = std::max(largest, bytes);
  return largest;
}

// A node that is being refitted has its experts as they are, and as they were before a step if they
// fit into their share of the memory, or their down projections; and these as they were before a
// ridge regression that was kept. What was accepted for a layer's other groups waits until all are
// done.
uint64_t WeightBytes(const DeviceModel& model, const Plan& plan, const RefitOptions& options,
                     const std::vector<uint32_t>* groups) {
  const ModelSpec& spec = model.spec();
  const uint64_t matrices = spec.gated_mlps ? 3 : 2;
  const uint64_t down = spec.expert_width() * model.widest_expert() * sizeof(float);
  const uint64_t one = matrices * down;
  uint64_t most = 0;
  for (const auto& [layer, count] : plan.layers) {
    if (layer >= spec.layers) break;
    uint64_t largest = 0, all = 0;
    for (uint32_t group = 0; group < plan.groups.size(); ++group) {
      if (groups != nullptr && std::find(groups->begin(), groups->end(), group) == groups->end())
        continue;
      const uint64_t kept = Eligible(plan, group, layer).size();
      largest = std::max(largest, kept);
      all += kept;
    }
    const uint64_t before = largest * one;
    most = std::max(most, all * one + largest * down +
                              (before <= options.before_memory() ? before : largest * down));
  }
  const LaterExperts* const later = model.weights().later.get();
  return model.device_bytes() + (later != nullptr ? LargestLayer(*later) : 0) + most;
}

}  // namespace

RefitEstimate EstimateRefit(const Model& model, const Plan& plan, const RefitOptions& options,
                            uint64_t tokens, const std::vector<uint32_t>* groups) {
  const auto& device = static_cast<const DeviceModel&>(model);
  const ModelSpec& spec = device.spec();
  const uint64_t hidden = spec.expert_width(), width = device.widest_expert();
  const uint64_t stream = spec.width, router = SetsExpertsApart(spec) ? stream : 0;
  RefitEstimate estimate;
  const std::vector<size_t> nodes = DistinctNodes(plan, groups);
  estimate.weight_bytes = WeightBytes(device, plan, options, groups);
  // Inputs, targets, outputs and the inputs of the router; the whole model's stream, and one for
  // each node.
  estimate.row_bytes =
      tokens * (3 * hidden + router + (1 + nodes.size()) * spec.stream_width()) * sizeof(float);
  estimate.joint = true;
  for (const auto& [layer, count] : plan.layers) {
    if (layer >= spec.layers) break;  // for multi-token prediction: not refitted
    const uint64_t used = std::max(1u, spec.layer[layer].router.top_k);
    const uint64_t chosen = options.top_k > 0 ? options.top_k : used;
    for (const size_t group : nodes) {
      const uint64_t kept = Eligible(plan, group, layer).size();
      estimate.tokens_needed =
          std::max(estimate.tokens_needed, kTokensPerNeuron * width * kept / chosen);
      const bool joint = RidgeIsJoint(kept, width, tokens * chosen, options.matrix_memory());
      estimate.joint = estimate.joint && joint;
      const LayerShape shape = {static_cast<double>(tokens),
                                static_cast<double>(hidden),
                                static_cast<double>(width),
                                static_cast<double>(chosen),
                                static_cast<double>(kept),
                                static_cast<double>(count),
                                !device.trunk().layers[layer].selection_bias.empty()};
      // Before the steps, and the down projections after them.
      estimate.products += shape.choices() * (shape.expert() + shape.matrix());
      for (const std::string& step : options.steps) {
        const uint64_t memory = options.matrix_memory();
        const uint64_t bytes = step == kRidgeStep    ? RidgeBytes(shape, joint, memory)
                               : step == kRefillStep ? RefillBytes(shape, options)
                               : step == kTuneStep   ? TuneBytes(shape, stream, options)
                                                     : RouterBytes(shape, stream, memory);
        estimate.matrix_bytes = std::max(estimate.matrix_bytes, bytes + HeldBytes(shape, options));
        // The node runs again after a step that leaves no outputs.
        estimate.products += step == kRidgeStep ? RidgeProducts(shape, joint, options.sweeps)
                             : step == kRefillStep
                                 ? RefillProducts(shape, options)
                                 : shape.choices() * shape.expert() +
                                       (step == kTuneStep ? TuneProducts(shape, options.updates)
                                                          : RouterProducts(shape));
      }
      // A ridge regression that is kept last is repeated on all text.
      if (std::find(options.steps.begin(), options.steps.end(), kRidgeStep) != options.steps.end())
        estimate.products += RidgeProducts(shape, joint, 1);
      // The stream up to the experts.
      estimate.products += shape.tokens * (AttentionProducts(spec) + shape.chosen * shape.expert());
    }
    estimate.products +=
        static_cast<double>(tokens) *
        (AttentionProducts(spec) + 3.0 * static_cast<double>(used * hidden * width));
  }
  return estimate;
}

}  // namespace moepack::runtime
