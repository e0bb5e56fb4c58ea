// How much of a GPU's bandwidth the product of a matrix and one vector uses, by type of weights:
// bytes of weights per second beside those of a copy on the device, read and written.
// usage: bench-cuda [EXECUTOR]   (cuda, or another kind of executors.cc)
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "runtime-shim/devices/executors.h"

namespace {

using moepack::runtime::Executor;
using moepack::runtime::Rows;

constexpr uint32_t kColumns = 8192;
constexpr uint64_t kWeightBytes = 256 << 20;  // far more than a cache holds
constexpr int kRounds = 20;
// One expert of a 30B-A3B model: launching the kernel takes longer than reading the weights.
constexpr uint32_t kSmallRows = 768, kSmallColumns = 2048;

[[noreturn]] void Fail(const moepack::Error& error) {
  std::fprintf(stderr, "%s\n", error.message.c_str());
  std::exit(1);
}

template <class T>
T OrFail(moepack::Result<T> result) {
  if (!result) Fail(result.error());
  return std::move(*result);
}

// Seconds that `operation` takes when many are in flight.
template <class Operation>
double Seconds(Executor& executor, const Operation& operation) {
  operation();
  OrFail(executor.Finish());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kRounds; ++i) operation();
  OrFail(executor.Finish());
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / kRounds;
}

// The same encoded row, `rows` times.
std::vector<std::byte> Weights(const quant::Format& format, uint32_t rows, uint32_t columns) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.05f);
  std::vector<float> values(columns);
  for (float& value : values) value = normal(random);
  std::vector<std::byte> row(*format.BytesFor(columns)), all;
  format.encode(values, {}, row);
  all.reserve(row.size() * rows);
  for (uint32_t i = 0; i < rows; ++i) all.insert(all.end(), row.begin(), row.end());
  return all;
}

double SecondsOfProduct(Executor& executor, const quant::Format& format, uint32_t rows,
                        uint32_t columns) {
  const auto weights = OrFail(executor.Load(Weights(format, rows, columns)));
  const auto x = OrFail(executor.Allocate(columns * sizeof(float)));
  const auto y = OrFail(executor.Allocate(rows * sizeof(float)));
  executor.Write(std::vector<float>(columns, 0.5f), {x.get(), 0, 1, columns, columns});
  return Seconds(executor, [&] {
    executor.MatMul({weights.get(), 0, &format, rows, columns}, {x.get(), 0, 1, columns, columns},
                    {y.get(), 0, 1, rows, rows});
  });
}

// Bytes read and written per second.
double CopyBandwidth(Executor& executor) {
  constexpr uint64_t kBytes = 1 << 30;
  const auto from = OrFail(executor.Allocate(kBytes)), to = OrFail(executor.Allocate(kBytes));
  constexpr uint32_t kWidth = 1 << 14;
  constexpr uint32_t kCount = kBytes / sizeof(float) / kWidth;
  const double seconds = Seconds(executor, [&] {
    executor.Copy({from.get(), 0, kCount, kWidth, kWidth}, {to.get(), 0, kCount, kWidth, kWidth});
  });
  return 2 * static_cast<double>(kBytes) / seconds;
}

void Measure(Executor& executor) {
  const double copy = CopyBandwidth(executor);
  std::printf("%s\ncopy: %.0f GB/s\n\n", executor.description().c_str(), copy / 1e9);
  std::printf("%-8s %10s %10s %22s\n", "type", "GB/s", "of copy", "768 x 2048, us");
  for (const quant::Format& format : quant::AllFormats()) {
    if (format.encode == nullptr || !executor.Supports(&format)) continue;
    const auto rows = static_cast<uint32_t>(kWeightBytes / *format.BytesFor(kColumns));
    const double bytes = static_cast<double>(*format.BytesFor(kColumns)) * rows;
    const double bandwidth = bytes / SecondsOfProduct(executor, format, rows, kColumns);
    const double small = SecondsOfProduct(executor, format, kSmallRows, kSmallColumns);
    std::printf("%-8s %10.0f %10.2f %22.1f\n", std::string(format.name).c_str(), bandwidth / 1e9,
                bandwidth / copy, small * 1e6);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "cuda";
  const auto executor = moepack::runtime::OpenExecutor(name, {});
  if (!executor) {
    std::printf("nothing was measured: %s\n", executor.error().message.c_str());
    return 0;
  }
  Measure(**executor);
  return 0;
}
