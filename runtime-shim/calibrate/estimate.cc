#include "runtime-shim/calibrate/estimate.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <vector>

#include "libshard/base/parallel.h"
#include "libshard/model/gguf_keys.h"
#include "runtime-shim/cpu/panels.h"
#include "runtime-shim/session/device_model.h"
#include "runtime-shim/session/layer_pass.h"

namespace moepack::runtime {
namespace {

// The passes of both streams through the trunk of a layer: its matrices are found and encoded in
// about three rounds, and then the layer runs once more.
constexpr double kTrunkPasses = 2 * 4;
constexpr double kExpertPasses = 2;
// Half of a matrix of moments, which is symmetric, and the drift.
constexpr double kMoments = 1.5;
// Both moments are factored, of the text that is learned from and of all of it.
constexpr double kFactors = 2;
// A matrix is encoded with both, and its error is measured on what is held out.
constexpr double kEncodings = 4;
// Moments of two parts of the text and their sum, in doubles, and two factors with their
// transposes, in floats: own and drift of each.
constexpr uint64_t kBytesOfSquare = 3 * 2 * sizeof(double) + 2 * 3 * sizeof(float);

struct LayerWork {
  double trunk = 0;   // values of its matrices
  double expert = 0;  // of one expert
  double experts = 0, chosen = 0;
  double squares = 0, expert_squares = 0;  // n^2 of the different inputs
  double cubes = 0, expert_cubes = 0;
  double encoded = 0;  // rows n^2 of all matrices
  uint64_t bytes = 0;  // of the experts, in the source and encoded
};

// Tokens of an expert share the moments of gate and up; so do matrices of the trunk with equally
// long inputs, about twice.
void AddMatrix(const HostTensor& tensor, const quant::Format& type, bool expert, LayerWork& work,
               std::map<uint64_t, bool>& seen) {
  double values = 1;
  for (const uint64_t size : tensor.shape) values *= static_cast<double>(size);
  const auto n = static_cast<double>(tensor.shape.back());
  work.encoded += values * n;
  const bool first = seen.emplace(tensor.shape.back() * 2 + expert, true).second;
  if (!expert) {
    work.trunk += values;
    if (first) work.squares += 2 * n * n;
    if (first) work.cubes += 2 * n * n * n;
    return;
  }
  work.experts = std::max(work.experts, static_cast<double>(tensor.shape[0]));
  work.expert += values / static_cast<double>(tensor.shape[0]);
  if (first) work.expert_squares += n * n;
  if (first) work.expert_cubes += n * n * n;
  const auto count = static_cast<uint64_t>(values);
  work.bytes += tensor.format->BytesFor(count).value_or(0) + type.BytesFor(count).value_or(0);
}

double ProductsOf(const LayerWork& work, double tokens) {
  const double choices = tokens * work.chosen;
  return tokens * (kTrunkPasses * work.trunk + kMoments * work.squares) +
         choices * (kExpertPasses * work.expert + kMoments * work.expert_squares) +
         kFactors * (work.cubes + work.experts * work.expert_cubes) + kEncodings * work.encoded;
}

}  // namespace

CalibrateEstimate EstimateCalibration(const Model& model, const TensorTypes& types,
                                      uint64_t tokens) {
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
  uint64_t experts = 0;
  for (auto& [layer, work] : layers) {
    if (layer < spec.layers) work.chosen = spec.layer[layer].router.top_k;
    estimate.products += ProductsOf(work, static_cast<double>(tokens));
    experts = std::max(experts, work.bytes);
  }
  estimate.weight_bytes = device.device_bytes() + experts;
  const uint64_t router = SetsExpertsApart(spec) ? spec.width : 0;
  estimate.row_bytes =
      tokens * (3ull * spec.expert_width() + router + 2ull * spec.width) * sizeof(float);
  estimate.matrix_bytes = widest * widest * kBytesOfSquare;
  return estimate;
}

double MeasureProductRate(size_t jobs) {
  constexpr size_t kRows = 256, kDepth = 1024, kRepeats = 32;
  const std::vector<float> factors(kRows * kDepth, 0.5f), panel(kDepth * kPanelColumns, 0.25f);
  const size_t threads = jobs == 0 ? CoreCount() : jobs;
  const auto start = std::chrono::steady_clock::now();
  ForPieces(threads * kRepeats, 1, jobs, [&](size_t, size_t) {
    std::vector<float> out(kRows * kPanelColumns);
    AddPanelProducts({factors.data(), kDepth, kRows, kDepth}, {panel.data()}, {out.data()});
  });
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return static_cast<double>(threads * kRepeats * kRows * kDepth * kPanelColumns) /
         std::max(taken.count(), 1e-9);
}

}  // namespace moepack::runtime
