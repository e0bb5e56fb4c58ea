// The steps of a calibration at the shape of an expert of Qwen3-30B-A3B: 2,048 columns, 768 rows.
// One thread; the items are multiply-adds, so that rows compare.
#include <benchmark/benchmark.h>

#include <random>
#include <vector>

#include "runtime-shim/calibrate/feedback.h"
#include "runtime-shim/calibrate/moments.h"
#include "runtime-shim/cpu/panels.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/refit/node_experts.h"
#include "runtime-shim/refit/products.h"

namespace moepack::runtime {
namespace {

constexpr size_t kColumns = 2048, kRows = 768, kTokens = 4096;
constexpr int64_t kSquare = int64_t{kColumns} * kColumns;

std::vector<float> RandomValues(size_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

const InputMoments& SomeMoments() {
  static const InputMoments moments = [] {
    const std::vector<float> rows = RandomValues(kTokens * kColumns, 1),
                             full = RandomValues(kTokens * kColumns, 2);
    const auto executor = OpenExecutor("cpu", {});
    Products products(**executor, 0);
    MomentSums sums(kColumns, true, products);
    static_cast<void>(sums.Add(rows, full));
    return *sums.Finish();
  }();
  return moments;
}

template <auto kProducts>
void PanelProducts(benchmark::State& state) {
  const std::vector<float> factors = RandomValues(kSquare, 3),
                           panel = RandomValues(kColumns * kPanelColumns, 4);
  std::vector<float> out(kColumns * kPanelColumns);
  for (auto _ : state)
    kProducts({factors.data(), kColumns, kColumns, kColumns}, {panel.data()}, {out.data()});
  state.SetItemsProcessed(state.iterations() * kSquare * static_cast<int64_t>(kPanelColumns));
}
BENCHMARK(PanelProducts<AddPanelProducts>)->Name("PanelProducts")->Unit(benchmark::kMillisecond);
BENCHMARK(PanelProducts<AddPanelProductsRef>)
    ->Name("PanelProducts/reference")
    ->Unit(benchmark::kMillisecond);

// A symmetric matrix and one that is not.
void Moments(benchmark::State& state) {
  const std::vector<float> rows = RandomValues(kTokens * kColumns, 1),
                           full = RandomValues(kTokens * kColumns, 2);
  const auto executor = OpenExecutor("cpu", {.threads = 1});
  Products products(**executor, 1);
  for (auto _ : state) {
    MomentSums sums(kColumns, true, products);
    if (!sums.Add(rows, full)) state.SkipWithError("no products");
    benchmark::DoNotOptimize(sums.Finish());
  }
  state.SetItemsProcessed(state.iterations() * kSquare * static_cast<int64_t>(kTokens) * 3 / 2);
}
BENCHMARK(Moments)->Unit(benchmark::kMillisecond);

void Factor(benchmark::State& state) {
  const InputMoments& moments = SomeMoments();
  for (auto _ : state) benchmark::DoNotOptimize(FeedbackFactor::Of(moments, {}, {.jobs = 1}));
  state.SetItemsProcessed(state.iterations() * kSquare * static_cast<int64_t>(kColumns) / 6);
}
BENCHMARK(Factor)->Unit(benchmark::kMillisecond);

// Two triangular systems and the drift, then the levels, for one search of scales.
void EncodeMatrix(benchmark::State& state, const char* type) {
  const auto factor = FeedbackFactor::Of(SomeMoments(), {}, {.jobs = 0});
  const std::vector<float> weights = RandomValues(kRows * kColumns, 5);
  const std::vector<std::vector<float>> importances = {SomeMoments().diagonal()};
  for (auto _ : state)
    benchmark::DoNotOptimize(
        EncodeWithFeedback({weights, kColumns, quant::FindFormat(type)}, *factor, importances, 1));
  state.SetItemsProcessed(state.iterations() * kSquare * static_cast<int64_t>(kRows) * 5 / 2);
}
BENCHMARK_CAPTURE(EncodeMatrix, q4_K, "q4_K")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(EncodeMatrix, iq4_xs, "iq4_xs")->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(EncodeMatrix, q2_K, "q2_K")->Unit(benchmark::kMillisecond);

void Expert(benchmark::State& state) {
  RefittedExperts expert;
  expert.hidden = kColumns;
  expert.width = kRows;
  expert.gate = RandomValues(kRows * kColumns, 6);
  expert.up = RandomValues(kRows * kColumns, 7);
  expert.down = RandomValues(kRows * kColumns, 8);
  const auto executor = OpenExecutor("cpu", {.threads = 1});
  Products products(**executor, 1);
  const auto matrices = LoadExpert(expert, 0, **executor);
  const MlpWeights& mlp = matrices->experts[0];
  const std::vector<float> x = RandomValues(kTokens * kColumns, 9), gates(kTokens, 1);
  std::vector<float> activations(kTokens * kRows), out(x.size());
  for (auto _ : state) {
    if (!products.Activations(mlp, {}, x, gates, activations) ||
        !products.Apply(mlp.down, activations, out))
      state.SkipWithError("no products");
  }
  state.SetItemsProcessed(state.iterations() *
                          static_cast<int64_t>(3 * kRows * kColumns * kTokens));
}
BENCHMARK(Expert)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace moepack::runtime
