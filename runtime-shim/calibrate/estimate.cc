#include "runtime-shim/calibrate/estimate.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "libshard/base/parallel.h"
#include "libshard/model/gguf_keys.h"
#include "quant/point_grids.h"
#include "runtime-shim/calibrate/feedback.h"
#include "runtime-shim/calibrate/moments.h"
#include "runtime-shim/cpu/panels.h"
#include "runtime-shim/refit/products.h"
#include "runtime-shim/session/device_model.h"
#include "runtime-shim/session/layer_pass.h"

namespace moepack::runtime {
namespace {

// The passes of both streams through the trunk of a layer: its matrices are found and encoded in
// about three rounds, and then the layer runs once more.
constexpr double kTrunkPasses = 2 * 4;
// Those of a group, whose trunk is encoded already.
constexpr double kTrunkPassesOfGroup = 2;
constexpr double kExpertPasses = 2;
// Half of a matrix of moments, which is symmetric, and the drift. A device computes the other half,
// too.
constexpr double kMoments = 1.5;
// Both moments are factored, of the text that is learned from and of all of it.
constexpr double kFactors = 2;
// Every eighth row is encoded for the trial on held-out text, whose error is measured twice.
constexpr double kEncodings = 1.25;
// The longest rows that are tried.
constexpr size_t kLongestTrial = 4096;
// Moments of two parts of the text and their sum, in doubles, and two factors with their
// transposes, in floats: own and drift of each.
constexpr uint64_t kBytesOfSquare = 3 * 2 * sizeof(double) + 2 * 3 * sizeof(float);

// What takes time, in the units of the trials below.
struct Effort {
  double products = 0;                 // multiply-adds
  std::map<uint64_t, double> factors;  // how many, by n
  // Rows of a type, by n.
  std::map<std::pair<const quant::Format*, uint64_t>, double> rows;
  void Add(const Effort& more, double times) {
    products += times * more.products;
    for (const auto& [n, count] : more.factors) factors[n] += times * count;
    for (const auto& [type, count] : more.rows) rows[type] += times * count;
  }
};

struct LayerWork {
  double trunk = 0;                    // values of its matrices
  double expert = 0, before_down = 0;  // of one expert; of its matrices before down
  double experts = 0, chosen = 0;
  double squares = 0, expert_squares = 0;  // n^2 of the different inputs
  uint64_t bytes = 0;                      // of the experts, in the source and encoded
  Effort of_trunk, of_experts;             // factors and rows
};

bool IsDown(const HostTensor& tensor) {
  const std::optional<BlockName> name = ParseBlockName(tensor.name);
  return name && name->rest.starts_with("ffn_down");
}

// Tokens of an expert share the moments of gate and up; so do matrices of the trunk with equally
// long inputs, about twice.
void AddMatrix(const HostTensor& tensor, const quant::Format& type, bool expert, LayerWork& work,
               std::map<uint64_t, bool>& seen) {
  double values = 1;
  for (const uint64_t size : tensor.shape) values *= static_cast<double>(size);
  const uint64_t columns = tensor.shape.back();
  const auto n = static_cast<double>(columns);
  (expert ? work.of_experts : work.of_trunk).rows[{&type, columns}] += values / n;
  const bool first = seen.emplace(columns * 2 + expert, true).second;
  if (!expert) {
    work.trunk += values;
    if (first) work.squares += 2 * n * n;
    if (first) work.of_trunk.factors[columns] += 2 * kFactors;
    return;
  }
  const auto experts = static_cast<double>(tensor.shape[0]);
  work.experts = std::max(work.experts, experts);
  work.expert += values / experts;
  if (!IsDown(tensor)) work.before_down += values / experts;
  if (first) work.expert_squares += n * n;
  if (first) work.of_experts.factors[columns] += kFactors * experts;
  const auto count = static_cast<uint64_t>(values);
  work.bytes += tensor.format->BytesFor(count).value_or(0) + type.BytesFor(count).value_or(0);
}

// Of the machine with the largest share of the experts, if all are chosen equally often. What is
// divided are their moments, factors and encodings; for these, a machine computes the activations
// of its experts once more, because the others are not encoded yet.
Effort WorkOf(const LayerWork& layer, double tokens, uint32_t machines) {
  const double choices = tokens * layer.chosen;
  Effort work = layer.of_trunk;
  work.products = tokens * (kTrunkPasses * layer.trunk + kMoments * layer.squares) +
                  choices * kExpertPasses * layer.expert;
  Effort divided = layer.of_experts;
  divided.products = choices * (kMoments * layer.expert_squares +
                                (machines > 1 ? kExpertPasses * layer.before_down : 0));
  const double share = layer.experts > 0 ? std::ceil(layer.experts / machines) / layer.experts : 1;
  work.Add(divided, share);
  return work;
}

// The same of a group's node.
Effort WorkOfGroup(const LayerWork& layer, double tokens, const GroupLayer& group) {
  const double choices = tokens * layer.chosen;
  const auto refitted = static_cast<double>(group.refitted);
  const double share = refitted / std::max(static_cast<double>(group.held), 1.0);
  Effort work;
  work.products =
      tokens * kTrunkPassesOfGroup * layer.trunk +
      choices * (kExpertPasses * layer.expert + share * kMoments * layer.expert_squares);
  if (layer.experts > 0) work.Add(layer.of_experts, refitted / layer.experts);
  return work;
}

// Processor time of the shortest of several runs: other work on the machine takes time from them,
// and only makes them longer.
template <class Run>
double LeastSeconds(const Run& run) {
  constexpr size_t kMost = 16;
  constexpr double kEnough = 0.1;
  double least = 0, all = 0;
  for (size_t i = 0; i < kMost && all < kEnough; ++i) {
    const std::clock_t start = std::clock();
    run();
    const double seconds =
        std::max(static_cast<double>(std::clock() - start), 1.0) / CLOCKS_PER_SEC;
    least = i == 0 ? seconds : std::min(least, seconds);
    all += seconds;
  }
  return least;
}

// Multiply-adds per second of one thread of the host.
double HostProductRate() {
  constexpr size_t kRows = 256, kDepth = 1024, kRepeats = 8;
  const std::vector<float> factors(kRows * kDepth, 0.5f), panel(kDepth * kPanelColumns, 0.25f);
  std::vector<float> out(kRows * kPanelColumns);
  const double seconds = LeastSeconds([&] {
    for (size_t i = 0; i < kRepeats; ++i)
      AddPanelProducts({factors.data(), kDepth, kRows, kDepth}, {panel.data()}, {out.data()});
  });
  return kRepeats * kRows * kDepth * kPanelColumns / seconds;
}

// What one thread takes for factors and rows of n columns.
class Trials {
 public:
  double SecondsFor(const Effort& work) {
    double seconds = 0;
    for (const auto& [n, count] : work.factors) seconds += count * FactorSeconds(n);
    for (const auto& [row, count] : work.rows)
      seconds += kEncodings * count * RowSeconds(*row.first, row.second);
    return seconds;
  }

 private:
  struct Trial {
    std::optional<FeedbackFactor> factor;
    double seconds = 0;
  };
  double FactorSeconds(uint64_t n) {
    const double ratio = static_cast<double>(n) / static_cast<double>(TriedOf(n));
    return FactorOf(n).seconds * ratio * ratio * ratio;
  }
  double RowSeconds(const quant::Format& type, uint64_t n) {
    const auto [known, added] = rows_.try_emplace({&type, n}, 0);
    if (added) known->second = TryRows(type, n);
    return known->second;
  }
  double TryRows(const quant::Format& type, uint64_t n) {
    const size_t tried = TriedOf(n);
    const double ratio = static_cast<double>(n) / static_cast<double>(tried);
    std::vector<float> rows(kPanelColumns * tried);
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<float>((i * 2654435761u) % 2003) / 1001 - 1;
    const std::vector<std::vector<float>> importances(2, std::vector<float>(tried, 1));
    const FeedbackFactor& factor = *FactorOf(n).factor;
    const double seconds = LeastSeconds([&] {
      EncodeWithFeedback({rows, tried, &type}, factor, importances, 1);
    });
    return seconds * ratio * ratio / kPanelColumns;
  }

  // A length of whole blocks.
  static size_t TriedOf(uint64_t n) { return n <= kLongestTrial ? n : kLongestTrial; }

  const Trial& FactorOf(uint64_t n) {
    const size_t tried = TriedOf(n);
    Trial& trial = trials_[tried];
    if (trial.factor) return trial;
    InputMoments moments;
    moments.columns = tried;
    moments.own.resize(tried * tried);
    moments.drift.resize(tried * tried);
    for (size_t i = 0; i < tried; ++i) moments.own[i * tried + i] = 1;
    trial.seconds = LeastSeconds([&] {
      trial.factor = FeedbackFactor::Of(moments, {}, {.together = quant::kPointRun, .jobs = 1});
    });
    return trial;
  }

  std::map<size_t, Trial> trials_;
  std::map<std::pair<const quant::Format*, uint64_t>, double> rows_;
};

struct ModelWork {
  std::map<uint32_t, LayerWork> layers;  // the output is the one after the last
  uint64_t widest = 0;
  uint64_t expert_bytes = 0;  // of the largest layer
};

ModelWork WorkOfModel(const DeviceModel& model, const TensorTypes& types) {
  const ModelSpec& spec = model.spec();
  ModelWork all;
  std::map<uint32_t, std::map<uint64_t, bool>> seen;
  const auto add = [&](const HostTensor& tensor, bool expert) {
    const auto type = types.find(tensor.name);
    if (type == types.end() || tensor.shape.size() < 2 || tensor.name == kEmbeddingTensor) return;
    const std::optional<BlockName> name = ParseBlockName(tensor.name);
    const auto layer = static_cast<uint32_t>(name ? name->block : spec.layers);
    AddMatrix(tensor, *type->second, expert, all.layers[layer], seen[layer]);
    all.widest = std::max(all.widest, tensor.shape.back());
  };
  for (const HostTensor& tensor : model.weights().trunk) add(tensor, false);
  if (model.weights().later != nullptr)
    for (const HostTensor& tensor : model.weights().later->tensors) add(tensor, true);
  for (auto& [layer, work] : all.layers) {
    if (layer < spec.layers) work.chosen = spec.layer[layer].router.top_k;
    all.expert_bytes = std::max(all.expert_bytes, work.bytes);
  }
  return all;
}

uint64_t WidestOf(const Effort& work) {
  return work.factors.empty() ? 0 : work.factors.rbegin()->first;
}

// The tokens that give each matrix enough.
double TokensFor(const LayerWork& layer) {
  const auto trunk = static_cast<double>(WidestOf(layer.of_trunk));
  const auto expert = static_cast<double>(WidestOf(layer.of_experts));
  const double choices = layer.experts * expert / std::max(layer.chosen, 1.0);
  return static_cast<double>(kTokensPerInput) * std::max(trunk, choices);
}

// The work of each group's node, that with most products first. A node's last layer is followed by
// nothing: the output is the model's.
std::vector<Effort> WorkOfGroups(const ModelWork& model, uint32_t layers,
                                 const CalibrateShape& shape) {
  std::vector<Effort> all;
  for (const GroupExperts& group : shape.groups) {
    Effort work;
    for (const auto& [layer, whole] : model.layers) {
      if (layer >= layers) break;
      const auto found = group.find(layer);
      const GroupLayer own = found == group.end() ? GroupLayer() : found->second;
      work.Add(WorkOfGroup(whole, static_cast<double>(shape.tokens), own), 1);
    }
    all.push_back(std::move(work));
  }
  std::stable_sort(all.begin(), all.end(),
                   [](const Effort& a, const Effort& b) { return a.products > b.products; });
  return all;
}

// The largest layer of a group's node in F32, with what the refit store has of it.
uint64_t BytesOfNode(const ModelWork& model, std::span<const GroupExperts> groups) {
  double most = 0;
  for (const GroupExperts& group : groups) {
    for (const auto& [layer, own] : group) {
      const auto found = model.layers.find(layer);
      if (found != model.layers.end())
        most = std::max(most, static_cast<double>(own.held + own.refitted) * found->second.expert);
    }
  }
  return static_cast<uint64_t>(most) * sizeof(float);
}

}  // namespace

uint64_t TokensForCalibration(const Model& model, const TensorTypes& types) {
  double most = 0;
  for (const auto& [layer, work] :
       WorkOfModel(static_cast<const DeviceModel&>(model), types).layers)
    most = std::max(most, TokensFor(work));
  return static_cast<uint64_t>(std::ceil(most));
}

Result<CalibrateEstimate> EstimateCalibration(const Model& model, const TensorTypes& types,
                                              const CalibrateShape& shape) {
  const auto& device = static_cast<const DeviceModel&>(model);
  const ModelSpec& spec = device.spec();
  const ModelWork layers = WorkOfModel(device, types);
  const std::vector<Effort> groups = WorkOfGroups(layers, spec.layers, shape);
  const auto jobs = static_cast<double>(ThreadsOf(shape.jobs));
  Products products(device.executor(), shape.jobs);
  double rate = 0;
  if (products.on_host()) {
    rate = jobs * HostProductRate();
  } else {
    SHARD_TRY(rate, RateOfCalls(products));
  }
  Trials trials;
  const auto seconds = [&](uint32_t machines) {
    Effort work;
    for (const auto& [layer, one] : layers.layers)
      work.Add(WorkOf(one, static_cast<double>(shape.tokens), machines), 1);
    const size_t share = (groups.size() + machines - 1) / machines;
    for (size_t i = 0; i < share; ++i) work.Add(groups[i], 1);
    return work.products / rate + trials.SecondsFor(work) / jobs;
  };
  CalibrateEstimate estimate;
  estimate.seconds = seconds(1);
  estimate.seconds_of_one = shape.machines > 1 ? seconds(shape.machines) : estimate.seconds;
  estimate.tokens_needed = TokensForCalibration(model, types);
  estimate.weight_bytes =
      device.device_bytes() + layers.expert_bytes + BytesOfNode(layers, shape.groups);
  // Of both streams: themselves, the inputs of experts and their sums, and perhaps of routers.
  const uint64_t router = SetsExpertsApart(spec) ? spec.width : 0;
  estimate.row_bytes =
      shape.tokens * 2 * (2ull * spec.expert_width() + router + spec.width) * sizeof(float);
  // The rows that wait for their product, in the model and in its encoded layers, of both parts of
  // the text.
  const uint64_t rows = 4 * MomentSums::RowsHeld(products, layers.widest);
  estimate.matrix_bytes = layers.widest * (layers.widest * kBytesOfSquare + rows * sizeof(float));
  return estimate;
}

}  // namespace moepack::runtime
