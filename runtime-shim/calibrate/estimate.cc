#include "runtime-shim/calibrate/estimate.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "libshard/base/parallel.h"
#include "libshard/model/gguf_keys.h"
#include "quant/point_grids.h"
#include "runtime-shim/calibrate/feedback.h"
#include "runtime-shim/cpu/panels.h"
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
// Half of a matrix of moments, which is symmetric, and the drift.
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

// Factors and encoded rows.
struct EncodingWork {
  std::map<uint64_t, double> factors;  // how many, by n
  // Rows of a type, by n.
  std::map<std::pair<const quant::Format*, uint64_t>, double> rows;

  void Add(const EncodingWork& other, double share) {
    for (const auto& [n, count] : other.factors) factors[n] += share * count;
    for (const auto& [type, count] : other.rows) rows[type] += share * count;
  }
};

struct LayerWork {
  double trunk = 0;   // values of its matrices
  double expert = 0;  // of one expert
  double experts = 0, chosen = 0;
  double squares = 0, expert_squares = 0;  // n^2 of the different inputs
  uint64_t bytes = 0;                      // of the experts, in the source and encoded
  EncodingWork of_trunk, of_experts;
};

// Tokens of an expert share the moments of gate and up; so do matrices of the trunk with equally
// long inputs, about twice.
void AddMatrix(const HostTensor& tensor, const quant::Format& type, bool expert, LayerWork& work,
               std::map<uint64_t, bool>& seen) {
  double values = 1;
  for (const uint64_t size : tensor.shape) values *= static_cast<double>(size);
  const auto n = static_cast<double>(tensor.shape.back());
  EncodingWork& encoding = expert ? work.of_experts : work.of_trunk;
  encoding.rows[{&type, tensor.shape.back()}] += values / n;
  const bool first = seen.emplace(tensor.shape.back() * 2 + expert, true).second;
  if (!expert) {
    work.trunk += values;
    if (first) work.squares += 2 * n * n;
    if (first) encoding.factors[tensor.shape.back()] += 2 * kFactors;
    return;
  }
  work.experts = std::max(work.experts, static_cast<double>(tensor.shape[0]));
  work.expert += values / static_cast<double>(tensor.shape[0]);
  if (first) work.expert_squares += n * n;
  if (first)
    encoding.factors[tensor.shape.back()] += kFactors * static_cast<double>(tensor.shape[0]);
  const auto count = static_cast<uint64_t>(values);
  work.bytes += tensor.format->BytesFor(count).value_or(0) + type.BytesFor(count).value_or(0);
}

double ProductsOf(const LayerWork& work, double tokens) {
  const double choices = tokens * work.chosen;
  return tokens * (kTrunkPasses * work.trunk + kMoments * work.squares) +
         choices * (kExpertPasses * work.expert + kMoments * work.expert_squares);
}

// The same of a group, of whose experts this share was refitted.
double ProductsOfGroup(const LayerWork& work, double tokens, double share) {
  const double choices = tokens * work.chosen;
  return tokens * kTrunkPassesOfGroup * work.trunk +
         choices * (kExpertPasses * work.expert + share * kMoments * work.expert_squares);
}

double SecondsSince(std::chrono::steady_clock::time_point start) {
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return taken.count();
}

// Multiply-adds per second of one thread.
double ProductRate() {
  constexpr size_t kRows = 256, kDepth = 1024, kRepeats = 8;
  const std::vector<float> factors(kRows * kDepth, 0.5f), panel(kDepth * kPanelColumns, 0.25f);
  std::vector<float> out(kRows * kPanelColumns);
  const auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < kRepeats; ++i)
    AddPanelProducts({factors.data(), kDepth, kRows, kDepth}, {panel.data()}, {out.data()});
  return kRepeats * kRows * kDepth * kPanelColumns / std::max(SecondsSince(start), 1e-9);
}

// What one thread takes for factors and rows of n columns.
class Trials {
 public:
  double FactorSeconds(uint64_t n) {
    const double ratio = static_cast<double>(n) / static_cast<double>(TriedOf(n));
    return FactorOf(n).seconds * ratio * ratio * ratio;
  }
  double RowSeconds(const quant::Format& type, uint64_t n) {
    const size_t tried = TriedOf(n);
    const double ratio = static_cast<double>(n) / static_cast<double>(tried);
    std::vector<float> rows(kPanelColumns * tried);
    for (size_t i = 0; i < rows.size(); ++i)
      rows[i] = static_cast<float>((i * 2654435761u) % 2003) / 1001 - 1;
    const std::vector<std::vector<float>> importances(2, std::vector<float>(tried, 1));
    const FeedbackFactor& factor = *FactorOf(n).factor;
    const auto start = std::chrono::steady_clock::now();
    EncodeWithFeedback({rows, tried, &type}, factor, importances, 1);
    return SecondsSince(start) * ratio * ratio / kPanelColumns;
  }

 private:
  struct Trial {
    std::optional<FeedbackFactor> factor;
    double seconds = 0;
  };
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
    const auto start = std::chrono::steady_clock::now();
    trial.factor = FeedbackFactor::Of(moments, {}, {.together = quant::kPointRun, .jobs = 1});
    trial.seconds = SecondsSince(start);
    return trial;
  }
  std::map<size_t, Trial> trials_;
};

}  // namespace

CalibrateEstimate EstimateCalibration(const Model& model, const TensorTypes& types,
                                      std::span<const GroupExperts> groups, uint64_t tokens,
                                      size_t jobs) {
  const auto& device = static_cast<const DeviceModel&>(model);
  const ModelSpec& spec = device.spec();
  std::map<uint32_t, LayerWork> layers;  // the output is the one after the last
  std::map<uint32_t, std::map<uint64_t, bool>> seen;
  uint64_t widest = 0;
  const auto add = [&](const HostTensor& tensor, bool expert) {
    const auto type = types.find(tensor.name);
    if (type == types.end() || tensor.shape.size() < 2 || tensor.name == kEmbeddingTensor) return;
    const std::optional<BlockName> name = ParseBlockName(tensor.name);
    const auto layer = static_cast<uint32_t>(name ? name->block : spec.layers);
    AddMatrix(tensor, *type->second, expert, layers[layer], seen[layer]);
    widest = std::max(widest, tensor.shape.back());
  };
  for (const HostTensor& tensor : device.weights().trunk) add(tensor, false);
  if (device.weights().later != nullptr)
    for (const HostTensor& tensor : device.weights().later->tensors) add(tensor, true);
  CalibrateEstimate estimate;
  uint64_t experts = 0, of_node = 0;
  double products = 0;
  EncodingWork all;
  for (auto& [layer, work] : layers) {
    if (layer < spec.layers) work.chosen = spec.layer[layer].router.top_k;
    products += ProductsOf(work, static_cast<double>(tokens));
    experts = std::max(experts, work.bytes);
    all.Add(work.of_trunk, 1);
    all.Add(work.of_experts, 1);
    for (const GroupExperts& group : groups) {
      const auto found = group.find(layer);
      const GroupLayer own = found == group.end() ? GroupLayer() : found->second;
      const auto held = static_cast<double>(own.held), refitted = static_cast<double>(own.refitted);
      products +=
          ProductsOfGroup(work, static_cast<double>(tokens), refitted / std::max(held, 1.0));
      if (work.experts > 0) all.Add(work.of_experts, refitted / work.experts);
      of_node = std::max(of_node, static_cast<uint64_t>(held * work.expert) * sizeof(float));
    }
  }
  estimate.seconds = products / ProductRate();
  Trials trials;
  for (const auto& [n, count] : all.factors) estimate.seconds += count * trials.FactorSeconds(n);
  for (const auto& [type, rows] : all.rows)
    estimate.seconds += kEncodings * rows * trials.RowSeconds(*type.first, type.second);
  estimate.seconds /= static_cast<double>(jobs == 0 ? CoreCount() : jobs);
  estimate.weight_bytes = device.device_bytes() + experts + of_node;
  const uint64_t router = SetsExpertsApart(spec) ? spec.width : 0;
  estimate.row_bytes =
      tokens * (3ull * spec.expert_width() + router + 2ull * spec.width) * sizeof(float);
  estimate.matrix_bytes = widest * widest * kBytesOfSquare;
  return estimate;
}

}  // namespace moepack::runtime
