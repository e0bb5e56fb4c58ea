#include "runtime-shim/cpu/packed_products.h"

#include <algorithm>

#include "libshard/base/parallel.h"

namespace moepack::runtime {
namespace {

// The block of a product that a thread computes at a time: its rows of the left side, kDepth
// columns of them at once, stay in the second-level cache while the panels pass by.
constexpr size_t kRowsOfBlock = 256, kRowsOfUpper = 128;
constexpr size_t kPanelsOfBlock = 8;
constexpr size_t kDepth = 512;
// Values that a thread packs or turns at a time; less work than kWorthThreads multiplications takes
// less time than starting threads.
constexpr size_t kValuesOfPiece = 1 << 16;
constexpr size_t kWorthThreads = 1 << 22;
// Rows and columns that are turned at a time, so that whole lines of the cache are read and
// written.
constexpr size_t kSide = 16;

size_t PiecesOf(size_t whole, size_t piece) { return (whole + piece - 1) / piece; }

// to[c * stride + r] = from[r][c]
void TurnBlock(const FloatMatrix& from, size_t columns, float* to, size_t stride) {
  for (size_t top = 0; top < from.rows; top += kSide) {
    const size_t end = std::min(top + kSide, from.rows);
    for (size_t c = 0; c < columns; ++c) {
      for (size_t r = top; r < end; ++r) to[c * stride + r] = from.first[r * from.stride + c];
    }
  }
}

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

// Calls work(block, scratch) for blocks that cover a product. The scratch has room for the sums of
// a block.
template <class Work>
void ForBlocks(const FloatMatrix& a, const PackedMatrix& b, size_t rows, size_t jobs,
               const Work& work) {
  const size_t down = PiecesOf(a.rows, rows), across = PiecesOf(b.panels(), kPanelsOfBlock);
  const bool worth = a.rows * b.columns() * std::max<size_t>(1, b.depth()) >= kWorthThreads;
  ForPieces(down * across, 1, worth ? jobs : 1, [&](size_t piece, size_t) {
    SumBlock block;
    block.row = piece / across * rows;
    block.count = std::min(rows, a.rows - block.row);
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
    TurnBlock(turned.Rows(first, some), depth_, to, kPanelColumns);
  });
}

void MultiplyPacked(const FloatMatrix& a, const PackedMatrix& b, std::span<const float> bias,
                    size_t jobs, std::span<float> out) {
  const size_t columns = b.columns();
  ForBlocks(a, b, kRowsOfBlock, jobs, [&](const SumBlock& block) {
    // The last panel may be wider than what is left of a row.
    const size_t left = block.panel * kPanelColumns,
                 some = std::min(block.end * kPanelColumns, columns) - left;
    const bool whole = some % kPanelColumns == 0;
    std::vector<float> scratch(whole ? 0 : block.count * kPanelsOfBlock * kPanelColumns, 0.0f);
    float* const sums = whole ? out.data() + block.row * columns + left : scratch.data();
    const size_t stride = whole ? columns : kPanelsOfBlock * kPanelColumns;
    for (size_t row = 0; row < block.count; ++row) {
      if (bias.empty()) {
        std::fill_n(sums + row * stride, some, 0.0f);
      } else {
        std::copy_n(bias.data() + left, some, sums + row * stride);
      }
    }
    AddBlock(a, b, block, sums, stride);
    for (size_t row = 0; row < block.count && !whole; ++row)
      std::copy_n(sums + row * stride, some, out.data() + (block.row + row) * columns + left);
  });
}

void AddPacked(const FloatMatrix& a, const PackedMatrix& b, bool upper, size_t jobs,
               const DoubleRows& out) {
  ForBlocks(a, b, upper ? kRowsOfUpper : kRowsOfBlock, jobs, [&](SumBlock block) {
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
  // Columns of a piece are whole lines of the cache.
  constexpr size_t kColumns = 4 * kSide;
  ForPieces(from.columns, kColumns, from.rows * from.columns > kValuesOfPiece ? jobs : 1,
            [&](size_t begin, size_t end) {
              FloatMatrix some = from;
              some.first += begin;
              TurnBlock(some, end - begin, to.data() + begin * stride, stride);
            });
}

}  // namespace moepack::runtime
