// Single functions, in one process and from memory: the cost of the headers and digests of a large
// checkpoint.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "libshard/format/safetensors.h"
#include "libshard/model/family.h"

namespace {

constexpr size_t kTensors = 100'000;
constexpr size_t kDigestBytes = 16 << 20;

// Names as in Qwen3-MoE: layer by layer, 128 experts of three tensors.
std::vector<std::string> ExpertNames() {
  const char* const roles[] = {"gate_proj", "up_proj", "down_proj"};
  std::vector<std::string> names;
  for (size_t i = 0; i < kTensors; ++i) {
    names.push_back(moepack::Cat("model.layers.", i / 384, ".mlp.experts.", i / 3 % 128, ".",
                                 roles[i % 3], ".weight"));
  }
  return names;
}

constexpr uint64_t kTensorBytes = 8;  // a [2, 2] tensor of BF16

std::string Header() {
  std::vector<moepack::TensorEntry> tensors;
  for (const std::string& name : ExpertNames()) {
    tensors.push_back({.name = name,
                       .dtype = "BF16",
                       .format = quant::FindSafetensorsFormat("BF16"),
                       .shape = {2, 2},
                       .bytes = kTensorBytes});
  }
  return moepack::BuildSafetensorsHeader(tensors, {});
}

void ParseHeaderOf100000Tensors(benchmark::State& state) {
  const std::string header = Header();
  const uint64_t file_size = header.size() + kTensors * kTensorBytes;
  for (auto _ : state) {
    auto parsed =
        moepack::ParseSafetensors("bench.safetensors", std::as_bytes(std::span(header)), file_size);
    if (!parsed) {
      state.SkipWithError(parsed.error().message.c_str());
      return;
    }
    benchmark::DoNotOptimize(parsed);
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kTensors));
}
BENCHMARK(ParseHeaderOf100000Tensors)->Unit(benchmark::kMillisecond);

void Classify100000Names(benchmark::State& state) {
  const moepack::Family* family = nullptr;
  for (const moepack::Family& row : moepack::AllFamilies()) {
    if (row.name == "qwen3-moe") family = &row;
  }
  if (family == nullptr) {
    state.SkipWithError("no family qwen3-moe");
    return;
  }
  const std::vector<std::string> names = ExpertNames();
  for (auto _ : state) {
    moepack::FamilyMatcher matcher(*family, 512);
    for (const std::string& name : names) benchmark::DoNotOptimize(matcher.Classify(name));
  }
  state.SetItemsProcessed(static_cast<int64_t>(state.iterations() * kTensors));
}
BENCHMARK(Classify100000Names)->Unit(benchmark::kMillisecond);

void Xxh3OfTensorBytes(benchmark::State& state) {
  const std::vector<std::byte> bytes(kDigestBytes, std::byte{7});
  for (auto _ : state) benchmark::DoNotOptimize(moepack::Xxh3Hex(bytes));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
}
BENCHMARK(Xxh3OfTensorBytes)->Unit(benchmark::kMillisecond);

void Sha256OfFileBytes(benchmark::State& state) {
  const std::vector<std::byte> bytes(kDigestBytes, std::byte{7});
  for (auto _ : state) benchmark::DoNotOptimize(moepack::Sha256Hex(std::span(bytes)));
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations() * bytes.size()));
}
BENCHMARK(Sha256OfFileBytes)->Unit(benchmark::kMillisecond);

}  // namespace
