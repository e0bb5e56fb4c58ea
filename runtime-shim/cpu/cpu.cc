#include "runtime-shim/cpu/cpu.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "runtime-shim/cpu/dots.h"
#include "runtime-shim/cpu/packed_products.h"
#include "runtime-shim/cpu/round_activations.h"
#include "runtime-shim/cpu/row_kernels.h"
#include "runtime-shim/cpu/thread_team.h"
#include "runtime-shim/cpu/turn_rows.h"
#include "runtime-shim/cpu/weight_tiles.h"
#include "runtime-shim/executor/executor.h"
#include "runtime-shim/reference/host_executor.h"
#include "runtime-shim/reference/reference.h"
#include "runtime-shim/reference/scalar_ops.h"

namespace moepack::runtime {
namespace {

// Attention of one token for the query heads that share a key head, as products of small matrices.

struct GroupInputs {
  const Executor::AttentionInputs& rows;
  const Rows& out;
  std::span<const float> sinks;  // one per query head, or empty
  uint32_t token, key_head;
};

// Memory that is reused across calls.
struct AttentionScratch {
  std::vector<float> scores;
  std::vector<const float*> queries;
  std::vector<float*> rows;
};

// How many keys fit in the first-level cache while all heads use them.
constexpr uint32_t kKeysAtOnce = 32;

// Writes the columns of the group's heads in the token's row of `out`. The result depends only on
// the positions that the token sees, not on the rest of the batch.
void AttendGroup(const AttentionShape& shape, const GroupInputs& inputs,
                 AttentionScratch& scratch) {
  const uint32_t heads = shape.heads / shape.key_heads, first_head = inputs.key_head * heads;
  const uint32_t position = shape.past + inputs.token, first = FirstSeen(shape, position);
  const uint32_t seen = position - first + 1;
  const auto cached = [&](const Rows& cache, uint32_t width) {
    return cache.Slice(first, seen).Columns(inputs.key_head * width, width);
  };
  const Rows keys = cached(inputs.rows.keys, shape.key_width);
  const Rows values = cached(inputs.rows.values, shape.value_width);

  scratch.scores.resize(size_t{heads} * seen);
  scratch.queries.clear(), scratch.rows.clear();
  const float* const query = RowOf(inputs.rows.queries, inputs.token).data();
  for (uint32_t head = 0; head < heads; ++head) {
    scratch.queries.push_back(query + size_t{first_head + head} * shape.key_width);
    scratch.rows.push_back(&scratch.scores[size_t{head} * seen]);
  }
  for (uint32_t key = 0; key < seen; key += kKeysAtOnce) {
    const uint32_t count = std::min(kKeysAtOnce, seen - key);
    MultiplyRows({{RowOf(keys, key).data(), keys.stride, count},
                  shape.key_width,
                  scratch.queries,
                  scratch.rows});
    for (float*& row : scratch.rows) row += count;
  }
  for (uint32_t head = 0; head < heads; ++head) {
    const float sink = inputs.sinks.empty() ? -std::numeric_limits<float>::infinity()
                                            : inputs.sinks[first_head + head];
    SoftmaxFast(std::span(scratch.scores).subspan(size_t{head} * seen, seen), shape.scale, sink);
  }
  float* const out = RowOf(inputs.out, inputs.token).data();
  AddWeighted({scratch.scores.data(), RowOf(values, 0).data(), values.stride, heads, seen,
               shape.value_width, out + size_t{first_head} * shape.value_width});
}

// The experts of a layer on a team of threads.

// The values between the steps of MixOnThreads: kept from layer to layer, because new memory costs
// a page fault every few rows.
struct ExpertMemory {
  std::vector<float> inner, outer;
};

// Rows of weights that a thread takes at a time. Every piece reads all rows of its expert's tokens.
constexpr uint32_t kPieceRows = 64;

// Rows of the sum that a thread takes at a time.
constexpr uint32_t kSumRows = 4;

// Some rows of one of an expert's matrices.
struct Piece {
  const ExpertRows* expert;
  size_t first_slot;
  WeightRows range;
};

// An expert's output for a row of the batch.
struct Use {
  size_t slot;
  float gate;
};

class ExpertMix {
 public:
  ExpertMix(const ExpertBatch& batch, ThreadTeam& team, ExpertMemory& memory)
      : batch_(batch), team_(team), memory_(memory), uses_(batch.x.count) {
    for (const ExpertRows& expert : batch.experts) {
      const uint32_t inner = expert.weights->inner();
      width_ = std::max(width_, inner);
      AddPieces(expert, inner, gates_);
      AddPieces(expert, batch.sum.width, downs_);
      for (size_t i = 0; i < expert.rows.size(); ++i)
        uses_[expert.rows[i]].push_back({slots_++, batch.weigh_inputs ? 1.0f : expert.gates[i]});
    }
    Grow(memory_.inner, slots_ * width_);
    Grow(memory_.outer, slots_ * batch.sum.width);
  }

  void Run(OutputSizes* sizes) {
    ForEach(gates_, [this](const Piece& piece, Own& own) { RunGate(piece, own); });
    ForEach(downs_, [this](const Piece& piece, Own& own) { RunDown(piece, own); });
    if (sizes != nullptr) {
      sizes->norms.resize(slots_);
      sizes->peaks.resize(slots_);
    }
    AddUp(sizes);
  }

 private:
  // What each thread has for itself.
  struct Own {
    TileMemory tile, up;
    std::vector<float> bias;
    std::vector<const float*> in;
    std::vector<float*> out, up_rows;
  };

  static void Grow(std::vector<float>& values, size_t size) {
    if (values.size() < size) values.resize(size);
  }

  void AddPieces(const ExpertRows& expert, uint32_t rows, std::vector<Piece>& pieces) const {
    for (uint32_t first = 0; first < rows; first += kPieceRows)
      pieces.push_back({&expert, slots_, {first, std::min(kPieceRows, rows - first)}});
  }

  template <class Work>
  void ForEach(const std::vector<Piece>& pieces, const Work& work) {
    team_.Run(pieces.size(), [&](SharedItems& items) {
      Own own;
      while (const auto item = items.Take()) work(pieces[*item], own);
    });
  }

  float* Inner(size_t slot) { return memory_.inner.data() + slot * width_; }
  float* Outer(size_t slot) { return memory_.outer.data() + slot * batch_.sum.width; }

  // rows = the piece's rows of `linear` times `in`, times `factors` (of the inputs; may be empty),
  // plus the bias.
  static void Project(const Linear& linear, const WeightRows& range, std::span<const float> factors,
                      Own& own, std::span<float* const> rows) {
    MultiplyWeights(linear.weight, range, own.in, rows, own.tile);
    const auto bias = VectorOf(linear.bias, own.bias);
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::span<float> row(rows[i], range.count);
      for (size_t c = 0; c < row.size() && !factors.empty(); ++c) row[c] *= factors[i];
      if (!bias.empty()) AddFast(row, bias.subspan(range.first, range.count), 1);
    }
  }

  void RunGate(const Piece& piece, Own& own) {
    const ExpertRows& expert = *piece.expert;
    const size_t count = expert.rows.size();
    const auto up = own.up.Get(count * piece.range.count);
    own.in.clear(), own.out.clear(), own.up_rows.clear();
    for (size_t i = 0; i < count; ++i) {
      own.in.push_back(RowOf(batch_.x, expert.rows[i]).data());
      own.out.push_back(Inner(piece.first_slot + i) + piece.range.first);
      own.up_rows.push_back(&up[i * piece.range.count]);
    }
    const std::span<const float> gates = expert.gates;
    const auto factors = batch_.weigh_inputs ? gates : gates.first(0);
    const MlpWeights& mlp = *expert.weights;
    Project(mlp.first(), piece.range, factors, own, own.out);
    if (mlp.gate.weight) Project(mlp.up, piece.range, factors, own, own.up_rows);
    for (size_t i = 0; i < count; ++i) {
      const size_t width = piece.range.count;
      ActivateFast(batch_.activation, {own.out[i], width}, {own.up_rows[i], width});
    }
  }

  void RunDown(const Piece& piece, Own& own) {
    own.in.clear(), own.out.clear();
    for (size_t i = 0; i < piece.expert->rows.size(); ++i) {
      own.in.push_back(Inner(piece.first_slot + i));
      own.out.push_back(Outer(piece.first_slot + i) + piece.range.first);
    }
    Project(piece.expert->weights->down, piece.range, {}, own, own.out);
  }

  void AddUp(OutputSizes* sizes) {
    const uint32_t rows = batch_.sum.count;
    team_.Run((rows + kSumRows - 1) / kSumRows, [&](SharedItems& items) {
      while (const auto item = items.Take()) {
        const auto first = static_cast<uint32_t>(*item * kSumRows);
        for (uint32_t row = first; row < std::min(rows, first + kSumRows); ++row)
          AddUpRow(row, sizes);
      }
    });
  }

  void AddUpRow(uint32_t row, OutputSizes* sizes) {
    const std::span<float> sum = RowOf(batch_.sum, row);
    std::fill(sum.begin(), sum.end(), 0.0f);
    for (const Use& use : uses_[row]) {
      const std::span<const float> out(Outer(use.slot), sum.size());
      AddFast(sum, out, use.gate);
      if (sizes == nullptr) continue;
      const RowSize size = SizeOf(out);
      sizes->norms[use.slot] = size.norm;
      sizes->peaks[use.slot] = size.peak;
    }
  }

  const ExpertBatch& batch_;
  ThreadTeam& team_;
  ExpertMemory& memory_;
  std::vector<std::vector<Use>> uses_;  // by row, in ascending id
  std::vector<Piece> gates_, downs_;
  uint32_t width_ = 0;
  size_t slots_ = 0;
};

// Executor::MixExperts. All threads take pieces of gate and up of all experts, then pieces of down
// of all experts, and then rows of the sum, whose experts are added in ascending id. Within these
// three steps nothing waits.
void MixOnThreads(const ExpertBatch& batch, ThreadTeam& team, ExpertMemory& memory,
                  OutputSizes* sizes) {
  ExpertMix(batch, team, memory).Run(sizes);
}

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
// The same where they are packed into panels first.
constexpr uint32_t kPackedRowsAtOnce = 8 * kPanelColumns;
// More pieces per thread keep all of them busy until the end.
constexpr uint32_t kPiecesPerThread = 4;
// Fewer tokens at a time would make decoding a large part of the work.
constexpr uint32_t kLeastTokens = 4 * kDecoding;
// Columns that are transposed at a time.
constexpr uint32_t kColumnsOfTile = 64;

uint32_t ThreadsFor(const ExecutorOptions& options) {
  const size_t wanted = options.threads != 0 ? options.threads : CoreCount();
  return static_cast<uint32_t>(std::min(wanted, kMaxThreads));
}

// Some rows of weights for some tokens.
struct ProductPiece {
  WeightRows rows;
  struct {
    uint32_t first, count;
  } tokens;
};

// One thread computes each value, in an order that is the same for any number of threads, tiles and
// tokens (dots.h). Operations on rows are those of the reference.
class CpuExecutor : public ReferenceExecutor {
 public:
  explicit CpuExecutor(uint32_t threads) : team_(threads) {}

  std::string name() const override { return "cpu"; }
  std::string description() const override {
    return Cat(Plural(team_.threads(), "thread"), ", ", DotInstructions());
  }

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override {
    struct Own {
      TileMemory memory;
      std::vector<float*> to;
    };
    const std::vector<const float*> in = InputsOf(x);
    const std::vector<float*> out = OutputsOf(y);
    ForProductPieces<Own>(
        weights, x.count, kWeightRowsAtOnce, [&](const ProductPiece& piece, Own& own) {
          const auto [rows, tokens] = piece;
          const auto first = out.begin() + tokens.first;
          own.to.assign(first, first + tokens.count);
          for (float*& row : own.to) row += rows.first;
          MultiplyWeights(weights, rows, std::span(in).subspan(tokens.first, tokens.count), own.to,
                          own.memory);
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
        TurnRows({RowOf(x, 0).data() + first, x.count, std::min(kColumnsOfTile, y.count - first),
                  x.stride},
                 RowOf(y, first).data(), y.stride);
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
  // Runs work(piece, own) for pieces of at most `rows` rows of weights that cover a product. `own`
  // is the thread's.
  template <class Own, class Work>
  void ForProductPieces(const Matrix& weights, uint32_t tokens, uint32_t rows, const Work& work) {
    const uint64_t products = uint64_t{weights.rows} * weights.columns * (tokens + kDecoding);
    const uint32_t pieces = Pieces(weights.rows, rows), some = TokensOfPiece(pieces, tokens);
    Share(uint64_t{pieces} * Pieces(tokens, some), products >= kProductsWorthThreads,
          [&](SharedItems& items) {
            Own own;
            while (const auto piece = items.Take()) {
              const auto first = static_cast<uint32_t>(*piece % pieces * rows),
                         token = static_cast<uint32_t>(*piece / pieces * some);
              work({{first, std::min(rows, weights.rows - first)},
                    {token, std::min(some, tokens - token)}},
                   own);
            }
          });
  }

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

// Multiplies panels of weights with all tokens. Experts run one after the other.
class PackingCpuExecutor final : public CpuExecutor {
 public:
  using CpuExecutor::CpuExecutor;

  void MatMul(const Matrix& weights, const Rows& x, const Rows& y) override {
    struct Own {
      std::vector<float> decoded;
      PackedMatrix packed;
    };
    ForProductPieces<Own>(
        weights, x.count, kPackedRowsAtOnce, [&](const ProductPiece& piece, Own& own) {
          const auto [rows, tokens] = piece;
          own.packed.PackTurned(
              FloatMatrix::Of(FloatsOf(weights, rows.first, rows.count, own.decoded),
                              weights.columns),
              /*jobs=*/1);
          const FloatMatrix in{RowOf(x, tokens.first).data(), tokens.count, x.width, x.stride};
          MultiplyPacked(in, own.packed, {}, /*jobs=*/1,
                         FloatSums{RowOf(y, tokens.first).data() + rows.first, y.stride});
        });
  }

  Status MixExperts(const ExpertBatch& batch, OutputSizes* sizes) override {
    return Executor::MixExperts(batch, sizes);
  }
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
  if (options.packed)
    return std::unique_ptr<Executor>(std::make_unique<PackingCpuExecutor>(threads));
  return std::unique_ptr<Executor>(std::make_unique<CpuExecutor>(threads));
}

std::string CpuDevices() { return Cat("0: ", CpuExecutor(ThreadsFor({})).description(), "\n"); }

}  // namespace moepack::runtime
