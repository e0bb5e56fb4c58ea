// How fast a GPU multiplies, by type of weights. One token: bytes of weights per second beside
// those of a copy on the device, read and written. Many tokens: multiplications per second, of a
// matrix that fills the device and of one that does not.
//
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
// One expert's share of a few hundred tokens that are computed at once.
constexpr uint32_t kSomeTokens = 40;
constexpr uint32_t kLargeRows = 4096, kLargeColumns = 4096, kManyTokens = 512;

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
                        uint32_t columns, uint32_t tokens) {
  const auto weights = OrFail(executor.Load(Weights(format, rows, columns)));
  const auto x = OrFail(executor.Allocate(uint64_t{tokens} * columns * sizeof(float)));
  const auto y = OrFail(executor.Allocate(uint64_t{tokens} * rows * sizeof(float)));
  const Rows in = {x.get(), 0, tokens, columns, columns};
  executor.Write(std::vector<float>(uint64_t{tokens} * columns, 0.5f), in);
  return Seconds(executor, [&] {
    executor.MatMul({weights.get(), 0, &format, rows, columns}, in,
                    {y.get(), 0, tokens, rows, rows});
  });
}

double MultiplicationsPerSecond(Executor& executor, const quant::Format& format, uint32_t rows,
                                uint32_t columns, uint32_t tokens) {
  return static_cast<double>(rows) * columns * tokens /
         SecondsOfProduct(executor, format, rows, columns, tokens);
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
  std::printf(
      "one token: GB/s of large weights, and microseconds of %u x %u; many: billions of\n"
      "multiplications per second, of %u tokens times the latter and of %u times %u x %u\n\n",
      kSmallRows, kSmallColumns, kSomeTokens, kManyTokens, kLargeRows, kLargeColumns);
  std::printf("%-8s %10s %10s %10s %10s %10s\n", "type", "GB/s", "of copy", "us", "few, G/s",
              "many, G/s");
  for (const quant::Format& format : quant::AllFormats()) {
    if (format.encode == nullptr || !executor.Supports(&format)) continue;
    const auto rows = static_cast<uint32_t>(kWeightBytes / *format.BytesFor(kColumns));
    const double bytes = static_cast<double>(*format.BytesFor(kColumns)) * rows;
    const double bandwidth = bytes / SecondsOfProduct(executor, format, rows, kColumns, 1);
    const double small = SecondsOfProduct(executor, format, kSmallRows, kSmallColumns, 1);
    const double some =
        MultiplicationsPerSecond(executor, format, kSmallRows, kSmallColumns, kSomeTokens);
    const double many =
        MultiplicationsPerSecond(executor, format, kLargeRows, kLargeColumns, kManyTokens);
    std::printf("%-8s %10.0f %10.2f %10.1f %10.0f %10.0f\n", std::string(format.name).c_str(),
                bandwidth / 1e9, bandwidth / copy, small * 1e6, some / 1e9, many / 1e9);
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
