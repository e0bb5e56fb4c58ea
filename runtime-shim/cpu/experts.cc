#include "runtime-shim/cpu/experts.h"

#include <algorithm>

#include "runtime-shim/cpu/row_kernels.h"
#include "runtime-shim/cpu/weight_tiles.h"
#include "runtime-shim/reference/host_executor.h"

namespace moepack::runtime {
namespace {

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

}  // namespace

void MixOnThreads(const ExpertBatch& batch, ThreadTeam& team, ExpertMemory& memory,
                  OutputSizes* sizes) {
  ExpertMix(batch, team, memory).Run(sizes);
}

}  // namespace moepack::runtime
