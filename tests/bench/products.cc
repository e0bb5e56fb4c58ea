// Products of the CPU executor by type of weights: how fast weights are read and multiplied.
#include <benchmark/benchmark.h>

#include <random>
#include <string>
#include <vector>

#include "runtime-shim/devices/executors.h"

namespace {

constexpr uint32_t kRows = 2048, kColumns = 2048;

std::vector<std::byte> EncodedWeights(const quant::Format& format) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> values(size_t{kRows} * kColumns);
  for (float& value : values) value = normal(random);
  std::vector<std::byte> bytes(*format.BytesFor(values.size()));
  format.encode(values, {}, bytes);
  return bytes;
}

void MatMul(benchmark::State& state, const quant::Format* format, const std::string& kind) {
  auto executor = moepack::runtime::OpenExecutor(kind, {});
  if (!executor) return state.SkipWithError(executor.error().message.c_str());
  const auto tokens = static_cast<uint32_t>(state.range(0));
  const std::vector<std::byte> bytes = EncodedWeights(*format);
  auto weights = *(*executor)->Load(bytes);
  auto x = *(*executor)->Allocate(uint64_t{tokens} * kColumns * sizeof(float));
  auto y = *(*executor)->Allocate(uint64_t{tokens} * kRows * sizeof(float));
  (*executor)->Write(std::vector<float>(size_t{tokens} * kColumns, 0.5f),
                     {x.get(), 0, tokens, kColumns, kColumns});
  for (auto _ : state) {
    (*executor)->MatMul({weights.get(), 0, format, kRows, kColumns},
                        {x.get(), 0, tokens, kColumns, kColumns},
                        {y.get(), 0, tokens, kRows, kRows});
    const auto finished = (*executor)->Finish();
    if (!finished) return state.SkipWithError(finished.error().message.c_str());
  }
  // Bytes of weights; the items are multiply-adds.
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes.size()));
  state.SetItemsProcessed(state.iterations() * int64_t{kRows} * kColumns * tokens);
}

// One row per type and number of tokens, for every executor of this build.
void RegisterProducts() {
  for (const moepack::runtime::ExecutorKind& kind : moepack::runtime::AllExecutorKinds()) {
    for (const quant::Format& format : quant::AllFormats()) {
      if (format.encode == nullptr || format.decode == nullptr || kind.missing != nullptr) continue;
      const std::string name = std::string("MatMul/") + kind.name + "/" + std::string(format.name);
      benchmark::RegisterBenchmark(name.c_str(), MatMul, &format, kind.name)
          ->Arg(1)
          ->Arg(64)
          ->Unit(benchmark::kMicrosecond)
          ->UseRealTime();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  RegisterProducts();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 1;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
