#include "runtime-shim/cpu/cpu.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "libshard/text.h"
#include "runtime-shim/cpu/attention.h"
#include "runtime-shim/cpu/dots.h"
#include "runtime-shim/cpu/round_activations.h"
#include "runtime-shim/reference/reference.h"

namespace runtime {
namespace {

// ThreadSanitizer does not see the barriers of the OpenMP libraries and reports races that are
// none, so there the executor runs on one thread.
#if defined(__SANITIZE_THREAD__)
constexpr uint32_t kMostThreads = 1;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr uint32_t kMostThreads = 1;
#else
constexpr uint32_t kMostThreads = 1024;
#endif
#else
constexpr uint32_t kMostThreads = 1024;
#endif

// Below so much work, waking the other threads takes longer than doing it here: some tens of
// microseconds of multiplications, and of values of operations on rows (exp in double at worst).
constexpr uint64_t kProductsWorthThreads = 1 << 20;
constexpr uint64_t kValuesWorthThreads = 1 << 15;
// Multiplications that take as long as decoding a weight.
constexpr uint64_t kDecoding = 32;
// Decoded weights that lie in a thread's second cache beside the rows they are multiplied with.
constexpr uint32_t kTileBytes = 1 << 16;

uint32_t ThreadsFor(const ExecutorOptions& options) {
  const uint32_t wanted =
      options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  return std::min(wanted, kMostThreads);
}

// A value is computed whole by one thread in an order that is the same for any number of threads,
// tiles and tokens (dots.h, attention.h). Operations on rows are those of the reference.
class CpuExecutor : public ReferenceExecutor {
 public:
  explicit CpuExecutor(uint32_t threads) : threads_(static_cast<int>(threads)) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return shard::Cat(threads_, threads_ == 1 ? " thread, " : " threads, ", DotInstructions());
  }

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override {
    const uint32_t tile_rows = TileRows(weights);
    const int64_t tiles = (int64_t{weights.rows} + tile_rows - 1) / tile_rows;
    const uint64_t work = uint64_t{weights.rows} * weights.columns * (x.count + kDecoding);
#pragma omp parallel num_threads(threads_) if (work >= kProductsWorthThreads)
    {
      std::vector<float> scratch;
#pragma omp for schedule(dynamic)
      for (int64_t tile = 0; tile < tiles; ++tile) {
        const auto first = static_cast<uint32_t>(tile) * tile_rows;
        const uint32_t rows = std::min(tile_rows, weights.rows - first);
        MultiplyTile({FloatsOf(weights, first, rows, scratch), rows}, x, y.Columns(first, rows));
      }
    }
  }

  void Attention(const AttentionShape& shape, const AttentionInputs& inputs,
                 const Rows& out) override {
    std::vector<float> sink_scratch;
    const auto sinks = VectorOf(inputs.sinks, sink_scratch);
    const int64_t parts = int64_t{out.count} * shape.key_heads;
    const uint64_t work = uint64_t{shape.past + out.count} * inputs.queries.width * out.count;
#pragma omp parallel num_threads(threads_) if (work >= kProductsWorthThreads)
    {
      AttentionScratch scratch;
#pragma omp for schedule(dynamic)
      for (int64_t part = 0; part < parts; ++part) {
        const auto token = static_cast<uint32_t>(part / shape.key_heads);
        const auto key_head = static_cast<uint32_t>(part % shape.key_heads);
        AttendGroup(shape, {inputs, out, sinks, token, key_head}, scratch);
      }
    }
  }

 protected:
  void ForEachRow(const Rows& rows, const std::function<void(uint32_t row)>& work) override {
    const int64_t count = rows.count;
#pragma omp parallel for num_threads(threads_) \
    schedule(static) if (uint64_t{rows.count} * rows.width >= kValuesWorthThreads)
    for (int64_t row = 0; row < count; ++row) work(static_cast<uint32_t>(row));
  }

 private:
  static uint32_t TileRows(const Matrix& weights) {
    constexpr auto kTileValues = static_cast<uint32_t>(kTileBytes / sizeof(float));
    const uint32_t fit = kTileValues / std::max(1u, weights.columns);
    return std::clamp(fit / kDotRows * kDotRows, kDotRows, 16 * kDotRows);
  }

  int threads_;
};

// With the rounding of llama.cpp's kernels, to be compared with them.
class RoundingCpuExecutor final : public CpuExecutor {
 public:
  using CpuExecutor::CpuExecutor;

  std::string description() const override {
    return CpuExecutor::description() + ", activations rounded as llama.cpp does";
  }

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override {
    const uint64_t bytes = uint64_t{x.count} * x.width * sizeof(float);
    if (rounded_ == nullptr || rounded_->bytes() < bytes) {
      auto buffer = Allocate(bytes);
      if (!buffer) {
        failure_ = std::move(buffer).error();
        return;
      }
      rounded_ = std::move(*buffer);
    }
    const Rows rounded{rounded_.get(), 0, x.count, x.width, x.width};
    Copy(x, rounded);
    ForEachRow(rounded,
               [&](uint32_t row) { RoundAsLlamaCpp(weights.format, RowOf(rounded, row)); });
    CpuExecutor::MatMul(weights, rounded, y);
  }

  shard::Status Read(const Rows& from, std::span<float> values) override {
    if (failure_.has_value()) return *std::exchange(failure_, std::nullopt);
    return CpuExecutor::Read(from, values);
  }

 private:
  BufferPtr rounded_;
  std::optional<shard::Error> failure_;
};

}  // namespace

shard::Result<std::unique_ptr<Executor>> OpenCpu(const ExecutorOptions& options) {
  if (options.device != 0) {
    return shard::Error{shard::Code::kUnavailable,
                        shard::Cat("cpu: device: expected 0, found ", options.device)};
  }
  const uint32_t threads = ThreadsFor(options);
  if (options.round_activations)
    return std::unique_ptr<Executor>(std::make_unique<RoundingCpuExecutor>(threads));
  return std::unique_ptr<Executor>(std::make_unique<CpuExecutor>(threads));
}

std::string CpuDevices() {
  return shard::Cat("0: ", CpuExecutor(ThreadsFor({})).description(), "\n");
}

}  // namespace runtime
