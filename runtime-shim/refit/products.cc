#include "runtime-shim/refit/products.h"

#include <algorithm>

#include "quant/format.h"
#include "runtime-shim/refit/pieces.h"

namespace moepack::runtime {
namespace {

// Tokens whose activations are on the executor at once.
constexpr size_t kTokensAtOnce = 4096;
// Rows that a thread moves or adds at a time.
constexpr size_t kRowsOfPiece = 64;
// Fewer rows take less time than starting threads.
constexpr size_t kRowsOfOneThread = 8 * kRowsOfPiece;
// Floats of a cache line.
constexpr size_t kRowsOfTile = 16;

const quant::Format* FloatFormat() {
  static const quant::Format* const format = quant::FindFormat("f32");
  return format;
}

template <class Work>
void ForRows(size_t rows, size_t jobs, const Work& work) {
  ForPieces(rows, kRowsOfPiece, rows > kRowsOfOneThread ? jobs : 1, work);
}

// Rows [first, first + count) of `table`, transposed.
void Transpose(const FloatTable& table, size_t first, size_t count, size_t jobs,
               std::vector<float>& out) {
  out.resize(count * table.columns);
  ForRows(table.columns, jobs, [&](size_t begin, size_t end) {
    // Rows of `out` are often 16 KiB apart, so that lines of the same column of many rows share one
    // set of the cache: a line is filled whole before the next one is touched.
    for (size_t top = 0; top < count; top += kRowsOfTile) {
      const size_t bottom = std::min(top + kRowsOfTile, count);
      for (size_t column = begin; column < end; ++column) {
        const float* const from = table.values.data() + first * table.columns + column;
        for (size_t row = top; row < bottom; ++row)
          out[column * count + row] = from[row * table.columns];
      }
    }
  });
}

// The sums of the squares of kCount rows. Each is added up in order; several at a time, because one
// alone would wait for each of its additions.
template <size_t kCount, class Value>
void SquareSome(const Value* rows, size_t columns, double* sums) {
  double parts[kCount] = {};
  for (size_t k = 0; k < columns; ++k) {
    for (size_t i = 0; i < kCount; ++i) {
      const double value = rows[i * columns + k];
      parts[i] += value * value;
    }
  }
  std::copy_n(parts, kCount, sums);
}

template <class Value>
void SquareRows(const Value* rows, size_t columns, std::span<double> sums) {
  size_t row = 0;
  for (; row + 4 <= sums.size(); row += 4)
    SquareSome<4>(rows + row * columns, columns, sums.data() + row);
  for (; row < sums.size(); ++row) SquareSome<1>(rows + row * columns, columns, sums.data() + row);
}

}  // namespace

Result<Rows> Products::Take(Use use, size_t count, size_t width) {
  const uint64_t bytes = uint64_t{count} * width * sizeof(float);
  BufferPtr& buffer = buffers_[use];
  if (buffer == nullptr || buffer->bytes() < bytes) {
    buffer.reset();
    SHARD_TRY(buffer, executor_.Allocate(bytes));
  }
  return Rows{buffer.get(), 0, static_cast<uint32_t>(count), static_cast<uint32_t>(width),
              static_cast<uint32_t>(width)};
}

Status Products::Project(const Linear& linear, std::span<const float> x, std::span<float> y) {
  const size_t width = linear.weight.columns, out = linear.weight.rows, count = x.size() / width;
  for (size_t first = 0; first < count; first += kTokensAtOnce) {
    const size_t some = std::min(kTokensAtOnce, count - first);
    SHARD_TRY(const Rows in, Take(Use::kIn, some, width));
    SHARD_TRY(const Rows rows, Take(Use::kOut, some, out));
    executor_.Write(x.subspan(first * width, some * width), in);
    executor_.Project(linear, in, rows);
    SHARD_CHECK(executor_.Read(rows, y.subspan(first * out, some * out)));
  }
  return Ok();
}

// Leaves act(gate(in), up(in)) in `gate`, as Executor::RunMlp does.
Status Products::Activate(const MlpWeights& expert, const ExpertForm& form, const Rows& in,
                          const Rows& gate) {
  SHARD_TRY(const Rows up, Take(Use::kUp, gate.count, gate.width));
  executor_.Project(expert.first(), in, gate);
  if (expert.gate.weight) executor_.Project(expert.up, in, up);
  executor_.Activate(form.activation, gate, up);
  return Ok();
}

Status Products::Activations(const MlpWeights& expert, const ExpertForm& form,
                             std::span<const float> x, std::span<const float> gates,
                             std::span<float> out) {
  const size_t width = expert.first().weight.columns, inner = expert.inner();
  for (size_t first = 0; first < gates.size(); first += kTokensAtOnce) {
    const size_t some = std::min(kTokensAtOnce, gates.size() - first);
    SHARD_TRY(const Rows in, Take(Use::kIn, some, width));
    SHARD_TRY(const Rows gate, Take(Use::kGate, some, inner));
    executor_.Write(x.subspan(first * width, some * width), in);
    if (form.weigh_inputs) executor_.ScaleRows(in, gates.subspan(first, some));
    SHARD_CHECK(Activate(expert, form, in, gate));
    if (!form.weigh_inputs) executor_.ScaleRows(gate, gates.subspan(first, some));
    SHARD_CHECK(executor_.Read(gate, out.subspan(first * inner, some * inner)));
  }
  return Ok();
}

Status Products::Output(const MlpWeights& expert, const ExpertForm& form, std::span<const float> x,
                        std::span<float> out) {
  const size_t width = expert.first().weight.columns, inner = expert.inner();
  const size_t count = x.size() / width;
  for (size_t first = 0; first < count; first += kTokensAtOnce) {
    const size_t some = std::min(kTokensAtOnce, count - first);
    SHARD_TRY(const Rows in, Take(Use::kIn, some, width));
    SHARD_TRY(const Rows gate, Take(Use::kGate, some, inner));
    SHARD_TRY(const Rows rows, Take(Use::kOut, some, width));
    executor_.Write(x.subspan(first * width, some * width), in);
    SHARD_CHECK(Activate(expert, form, in, gate));
    executor_.Project(expert.down, gate, rows);
    SHARD_CHECK(executor_.Read(rows, out.subspan(first * width, some * width)));
  }
  return Ok();
}

// The executor multiplies by transposed matrices, hence the transposed tables. It adds in floats,
// so it only adds up the tokens of a block; callers add up the blocks in doubles.
Status Products::MultiplyBlock(size_t a_columns, const Buffer& b, size_t b_columns, size_t count) {
  SHARD_TRY(const Rows x, Take(Use::kIn, a_columns, count));
  SHARD_TRY(const Rows y, Take(Use::kOut, a_columns, b_columns));
  executor_.Write(left_, x);
  executor_.MatMul(
      {&b, 0, FloatFormat(), static_cast<uint32_t>(b_columns), static_cast<uint32_t>(count)}, x, y);
  product_.resize(a_columns * b_columns);
  return executor_.Read(y, product_);
}

Status Products::AddProduct(const FloatTable& a, const FloatTable& b, const DoubleBlock& out) {
  const bool same = a.values.data() == b.values.data() && a.columns == b.columns;
  for (size_t first = 0; first < a.rows(); first += kTokensOfSum) {
    const size_t some = std::min(kTokensOfSum, a.rows() - first);
    Transpose(a, first, some, jobs_, left_);
    if (!same) Transpose(b, first, some, jobs_, right_);
    const std::vector<float>& right = same ? left_ : right_;
    SHARD_TRY(const BufferPtr weights, executor_.Load(std::as_bytes(std::span(right))));
    SHARD_CHECK(MultiplyBlock(a.columns, *weights, b.columns, some));
    ForRows(a.columns, jobs_, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        for (size_t column = 0; column < b.columns; ++column)
          out.first[row * out.stride + column] += product_[row * b.columns + column];
      }
    });
  }
  return Ok();
}

Result<HeldTable> Products::Hold(const FloatTable& table) {
  HeldTable held{table.columns, {}};
  for (size_t first = 0; first < table.rows(); first += kTokensOfSum) {
    HeldTable::Block block;
    Transpose(table, first, std::min(kTokensOfSum, table.rows() - first), jobs_, block.values);
    SHARD_TRY(block.weights, executor_.Load(std::as_bytes(std::span(block.values))));
    held.blocks.push_back(std::move(block));
  }
  return held;
}

Status Products::SquareProduct(const FloatTable& a, const HeldTable& b, std::span<double> squares) {
  std::fill(squares.begin(), squares.end(), 0.0);
  std::vector<double> sums(b.blocks.size() > 1 ? a.columns * b.columns : 0);
  for (size_t block = 0; block < b.blocks.size(); ++block) {
    const size_t first = block * kTokensOfSum, some = std::min(kTokensOfSum, a.rows() - first);
    Transpose(a, first, some, jobs_, left_);
    SHARD_CHECK(MultiplyBlock(a.columns, *b.blocks[block].weights, b.columns, some));
    const bool last = block + 1 == b.blocks.size();
    ForRows(a.columns, jobs_, [&](size_t begin, size_t end) {
      const auto square = [&](const auto& table) {
        SquareRows(table.data() + begin * b.columns, b.columns,
                   squares.subspan(begin, end - begin));
      };
      if (b.blocks.size() == 1) return square(product_);
      for (size_t i = begin * b.columns; i < end * b.columns; ++i) sums[i] += product_[i];
      if (last) square(sums);
    });
  }
  return Ok();
}

}  // namespace moepack::runtime
