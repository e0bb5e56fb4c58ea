#include "runtime-shim/cpu/cpu.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/cpu/attention.h"
#include "runtime-shim/cpu/dots.h"
#include "runtime-shim/cpu/experts.h"
#include "runtime-shim/cpu/round_activations.h"
#include "runtime-shim/cpu/row_kernels.h"
#include "runtime-shim/cpu/thread_team.h"
#include "runtime-shim/cpu/weight_tiles.h"
#include "runtime-shim/reference/reference.h"

namespace moepack::runtime {
namespace {

// With less work than this, waking other threads takes longer than doing it on this one. Each
// corresponds to some tens of microseconds: multiplications in a product, and values in an
// operation on rows (at worst with an exp in double).
constexpr uint64_t kProductsWorthThreads = 1 << 20;
constexpr uint64_t kValuesWorthThreads = 1 << 15;
// Decoding a weight takes about as long as this many multiplications.
constexpr uint64_t kDecoding = 32;
// Rows that a thread takes at a time: of activations, and of weights.
constexpr uint32_t kRowsAtOnce = 4;
constexpr uint32_t kWeightRowsAtOnce = 64;
// More pieces per thread keep all of them busy until the end.
constexpr uint32_t kPiecesPerThread = 4;
// Fewer tokens at a time would make decoding a large part of the work.
constexpr uint32_t kLeastTokens = 4 * kDecoding;
// Rows and columns that are transposed at a time: the floats of a cache line, and such lines of the
// output that fit in the first-level cache.
constexpr uint32_t kRowsOfTile = 16;
constexpr uint32_t kColumnsOfTile = 64;

uint32_t ThreadsFor(const ExecutorOptions& options) {
  const size_t wanted = options.threads != 0 ? options.threads : CoreCount();
  return static_cast<uint32_t>(std::min(wanted, kMaxThreads));
}

// Columns of `x` become rows of `y`. Rows of y are often a multiple of 4 KiB apart, so that lines
// of many of them share one set of the cache: a line is filled whole before the next one is
// touched.
void TransposeColumns(const Rows& x, const WeightRows& columns, const Rows& y) {
  const float* from[kRowsOfTile];
  for (uint32_t top = 0; top < x.count; top += kRowsOfTile) {
    const uint32_t rows = std::min(kRowsOfTile, x.count - top);
    for (uint32_t row = 0; row < rows; ++row)
      from[row] = RowOf(x, top + row).data() + columns.first;
    for (uint32_t column = 0; column < columns.count; ++column) {
      float* const to = RowOf(y, columns.first + column).data() + top;
      for (uint32_t row = 0; row < rows; ++row) to[row] = from[row][column];
    }
  }
}

// One thread computes each value, in an order that is the same for any number of threads, tiles and
// tokens (dots.h, attention.h). Operations on rows are those of the reference.
class CpuExecutor : public ReferenceExecutor {
 public:
  explicit CpuExecutor(uint32_t threads) : team_(threads) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return Cat(Plural(team_.threads(), "thread"), ", ", DotInstructions());
  }

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override {
    const std::vector<const float*> in = InputsOf(x);
    const std::vector<float*> out = OutputsOf(y);
    const uint64_t work = uint64_t{weights.rows} * weights.columns * (x.count + kDecoding);
    // Each piece is some rows of weights for some tokens.
    const uint32_t pieces = Pieces(weights.rows, kWeightRowsAtOnce);
    const uint32_t tokens = TokensOfPiece(pieces, x.count);
    Share(uint64_t{pieces} * Pieces(x.count, tokens), work >= kProductsWorthThreads,
          [&](SharedItems& items) {
            TileMemory memory;
            std::vector<float*> to;
            while (const auto piece = items.Take()) {
              const auto first = static_cast<uint32_t>(*piece % pieces * kWeightRowsAtOnce),
                         token = static_cast<uint32_t>(*piece / pieces * tokens);
              const uint32_t count = std::min(tokens, x.count - token);
              to.assign(out.begin() + token, out.begin() + token + count);
              for (float*& row : to) row += first;
              MultiplyWeights(weights, {first, std::min(kWeightRowsAtOnce, weights.rows - first)},
                              std::span(in).subspan(token, count), to, memory);
            }
          });
  }

  void RmsNorm(const Rows& x, const NormWeights& norm, const Rows& y) override {
    std::vector<float> weight_scratch, bias_scratch;
    const NormVectors vectors = {VectorOf(norm.weight, weight_scratch),
                                 VectorOf(norm.bias, bias_scratch), norm.eps};
    ForEachRow(x, [&](uint32_t t) { NormFast(RowOf(x, t), vectors, RowOf(y, t)); });
  }

  void MeasureRows(const Rows& x, const Rows& sizes) override {
    ForEachRow(x, [&](uint32_t t) {
      const RowSize size = SizeOf(RowOf(x, t));
      const std::span<float> to = RowOf(sizes, t);
      to[0] = size.norm, to[1] = size.peak;
    });
  }

  void Transpose(const Rows& x, const Rows& y) override {
    const bool worth = x.values() >= kValuesWorthThreads;
    Share(Pieces(y.count, kColumnsOfTile), worth, [&](SharedItems& items) {
      while (const auto piece = items.Take()) {
        const auto first = static_cast<uint32_t>(*piece * kColumnsOfTile);
        TransposeColumns(x, {first, std::min(kColumnsOfTile, y.count - first)}, y);
      }
    });
  }

  void Activate(Activation activation, const Rows& gate, const Rows& up) override {
    ForEachRow(gate, [&](uint32_t t) { ActivateFast(activation, RowOf(gate, t), RowOf(up, t)); });
  }

  Status MixExperts(const ExpertBatch& batch, OutputSizes* sizes) override {
    MixOnThreads(batch, team_, expert_memory_, sizes);
    return Ok();
  }

  void Attention(const AttentionShape& shape, const AttentionInputs& inputs,
                 const Rows& out) override {
    std::vector<float> sink_scratch;
    const auto sinks = VectorOf(inputs.sinks, sink_scratch);
    const uint64_t parts = uint64_t{out.count} * shape.key_heads;
    const uint64_t work = uint64_t{shape.past + out.count} * inputs.queries.width * out.count;
    Share(parts, work >= kProductsWorthThreads, [&](SharedItems& items) {
      AttentionScratch scratch;
      while (const auto part = items.Take()) {
        const auto token = static_cast<uint32_t>(*part / shape.key_heads);
        const auto key_head = static_cast<uint32_t>(*part % shape.key_heads);
        AttendGroup(shape, {inputs, out, sinks, token, key_head}, scratch);
      }
    });
  }

 protected:
  void ForEachRow(const Rows& rows, const std::function<void(uint32_t row)>& work) override {
    const uint32_t pieces = Pieces(rows.count, kRowsAtOnce);
    const bool worth = uint64_t{rows.count} * rows.width >= kValuesWorthThreads;
    Share(pieces, worth, [&](SharedItems& items) {
      while (const auto piece = items.Take()) {
        const auto first = static_cast<uint32_t>(*piece * kRowsAtOnce);
        const uint32_t end = first + std::min(rows.count - first, kRowsAtOnce);
        for (uint32_t row = first; row < end; ++row) work(row);
      }
    });
  }

 private:
  static uint32_t Pieces(uint32_t whole, uint32_t piece) {
    return whole / piece + (whole % piece != 0 ? 1 : 0);
  }

  // All tokens, or fewer if there would be too few pieces to keep all threads busy.
  uint32_t TokensOfPiece(uint32_t weight_pieces, uint32_t tokens) const {
    const uint32_t wanted = Pieces(kPiecesPerThread * team_.threads(), std::max(1u, weight_pieces));
    return std::max({1u, std::min(tokens, kLeastTokens), Pieces(tokens, std::max(1u, wanted))});
  }

  // Runs the work on this thread alone unless more threads are worth it.
  void Share(uint64_t items, bool worth, const ThreadTeam::Work& work) {
    if (worth) return team_.Run(items, work);
    SharedItems all(items);
    work(all);
  }

  ThreadTeam team_;
  ExpertMemory expert_memory_;
};

// Rounds inputs as llama.cpp's kernels do, for comparisons with them.
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

  // The form that rounds before every product.
  Status MixExperts(const ExpertBatch& batch, OutputSizes* sizes) override {
    return Executor::MixExperts(batch, sizes);
  }

  Status Read(const Rows& from, std::span<float> values) override {
    if (failure_.has_value()) return *std::exchange(failure_, std::nullopt);
    return CpuExecutor::Read(from, values);
  }

 private:
  BufferPtr rounded_;
  std::optional<Error> failure_;
};

}  // namespace

Result<std::unique_ptr<Executor>> OpenCpu(const ExecutorOptions& options) {
  if (options.device != 0) {
    return Error{Code::kUnavailable, Cat("cpu: device: expected 0, found ", options.device)};
  }
  const uint32_t threads = ThreadsFor(options);
  if (options.round_activations)
    return std::unique_ptr<Executor>(std::make_unique<RoundingCpuExecutor>(threads));
  return std::unique_ptr<Executor>(std::make_unique<CpuExecutor>(threads));
}

std::string CpuDevices() { return Cat("0: ", CpuExecutor(ThreadsFor({})).description(), "\n"); }

}  // namespace moepack::runtime
