#include "runtime-shim/cpu/packed_products.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "runtime-shim/cpu/turn_rows.h"

namespace moepack::runtime {
namespace {

// The block of a product that a thread computes at a time: its rows of the left side, kDepth
// columns of them at once, stay in the second-level cache while the panels pass by. More rows would
// not: rows that are a power of two apart share few places in it.
constexpr size_t kRowsOfBlock = 128;
constexpr size_t kPanelsOfBlock = 8;
constexpr size_t kDepth = 512;
// Values that a thread packs or turns at a time; less work than kWorthThreads multiplications takes
// less time than waking threads.
constexpr size_t kValuesOfPiece = 1 << 16;
constexpr size_t kWorthThreads = 1 << 22;

size_t PiecesOf(size_t whole, size_t piece) { return (whole + piece - 1) / piece; }

// A block of sums: rows [row, row + count) of the left side with panels [panel, end).
struct SumBlock {
  size_t row = 0, count = 0, panel = 0, end = 0;
};

// Adds the products of a block to `sums`, whose row i starts at sums + i * stride, and has a place
// for every column of the block's panels.
void AddBlock(const FloatMatrix& a, const PackedMatrix& b, const SumBlock& block, float* sums,
              size_t stride) {
  for (size_t first = 0; first < b.depth(); first += kDepth) {
    const PanelFactors factors{a.row(block.row) + first, a.stride, block.count,
                               std::min(kDepth, b.depth() - first)};
    for (size_t panel = block.panel; panel < block.end; ++panel)
      AddPanelProducts(factors, {b.panel(panel).row(first), kPanelColumns},
                       {sums + (panel - block.panel) * kPanelColumns, stride});
  }
}

// Calls work(block) for blocks that cover a product.
template <class Work>
void ForBlocks(const FloatMatrix& a, const PackedMatrix& b, size_t jobs, const Work& work) {
  const size_t down = PiecesOf(a.rows, kRowsOfBlock), across = PiecesOf(b.panels(), kPanelsOfBlock);
  const bool worth = a.rows * b.columns() * std::max<size_t>(1, b.depth()) >= kWorthThreads;
  ForPieces(down * across, 1, worth ? jobs : 1, [&](size_t piece, size_t) {
    SumBlock block;
    block.row = piece / across * kRowsOfBlock;
    block.count = std::min(kRowsOfBlock, a.rows - block.row);
    block.panel = piece % across * kPanelsOfBlock;
    block.end = std::min(block.panel + kPanelsOfBlock, b.panels());
    work(block);
  });
}

}  // namespace

void PackedMatrix::Resize(size_t depth, size_t columns) {
  depth_ = depth;
  columns_ = columns;
  const size_t values = panels() * kPanelColumns * depth;
  if (values_.size() < values) values_.resize(values);
}

void PackedMatrix::Pack(const FloatMatrix& b, size_t jobs) {
  Resize(b.rows, b.columns);
  const size_t rows = std::max<size_t>(1, kValuesOfPiece / std::max<size_t>(1, columns_));
  ForPieces(depth_, rows, depth_ * columns_ > kValuesOfPiece ? jobs : 1,
            [&](size_t begin, size_t end) {
              for (size_t k = begin; k < end; ++k) {
                for (size_t panel = 0; panel < panels(); ++panel) {
                  float* const to = values_.data() + (panel * depth_ + k) * kPanelColumns;
                  const size_t first = panel * kPanelColumns;
                  const size_t some = std::min(kPanelColumns, columns_ - first);
                  if (some == kPanelColumns) {  // a number that the compiler knows
                    std::copy_n(b.row(k) + first, kPanelColumns, to);
                    continue;
                  }
                  std::copy_n(b.row(k) + first, some, to);
                  std::fill(to + some, to + kPanelColumns, 0.0f);
                }
              }
            });
}

void PackedMatrix::PackTurned(const FloatMatrix& turned, size_t jobs) {
  Resize(turned.columns, turned.rows);
  ForPieces(panels(), 1, depth_ * columns_ > kValuesOfPiece ? jobs : 1, [&](size_t panel, size_t) {
    const size_t first = panel * kPanelColumns;
    const size_t some = std::min(kPanelColumns, columns_ - first);
    float* const to = values_.data() + panel * depth_ * kPanelColumns;
    if (some < kPanelColumns) std::fill_n(to, depth_ * kPanelColumns, 0.0f);
    TurnRows(turned.Rows(first, some), to, kPanelColumns);
  });
}

void MultiplyPacked(const FloatMatrix& a, const PackedMatrix& b, std::span<const float> bias,
                    size_t jobs, const FloatSums& out) {
  ForBlocks(a, b, jobs, [&](const SumBlock& block) {
    // The last panel may be wider than what is left of a row.
    const size_t left = block.panel * kPanelColumns,
                 some = std::min(block.end * kPanelColumns, b.columns()) - left;
    const bool whole = some % kPanelColumns == 0;
    std::vector<float> scratch(whole ? 0 : block.count * kPanelsOfBlock * kPanelColumns, 0.0f);
    float* const to = out.first + block.row * out.stride + left;
    float* const sums = whole ? to : scratch.data();
    const size_t stride = whole ? out.stride : kPanelsOfBlock * kPanelColumns;
    for (size_t row = 0; row < block.count; ++row) {
      if (bias.empty()) {
        std::fill_n(sums + row * stride, some, 0.0f);
      } else {
        std::copy_n(bias.data() + left, some, sums + row * stride);
      }
    }
    AddBlock(a, b, block, sums, stride);
    for (size_t row = 0; row < block.count && !whole; ++row)
      std::copy_n(sums + row * stride, some, to + row * out.stride);
  });
}

void AddPacked(const FloatMatrix& a, const PackedMatrix& b, bool upper, size_t jobs,
               const DoubleRows& out) {
  ForBlocks(a, b, jobs, [&](SumBlock block) {
    if (upper) block.panel = std::max(block.panel, block.row / kPanelColumns);
    if (block.panel >= block.end) return;
    const size_t left = block.panel * kPanelColumns, wide = block.end * kPanelColumns - left,
                 some = std::min(left + wide, b.columns()) - left;
    std::vector<float> sums(block.count * wide, 0.0f);
    AddBlock(a, b, block, sums.data(), wide);
    for (size_t row = 0; row < block.count; ++row) {
      double* const to = out.first + (block.row + row) * out.stride + left;
      for (size_t column = 0; column < some; ++column) to[column] += sums[row * wide + column];
    }
  });
}

void TurnMatrix(const FloatMatrix& from, size_t stride, size_t jobs, std::vector<float>& to) {
  if (to.size() < from.columns * stride) to.resize(from.columns * stride);
  // Whole lines of the cache.
  constexpr size_t kColumnsOfPiece = 64;
  ForPieces(from.columns, kColumnsOfPiece, from.rows * from.columns > kValuesOfPiece ? jobs : 1,
            [&](size_t begin, size_t end) {
              TurnRows({from.first + begin, from.rows, end - begin, from.stride},
                       to.data() + begin * stride, stride);
            });
}

}  // namespace moepack::runtime
