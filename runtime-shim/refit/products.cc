#include "runtime-shim/refit/products.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "quant/format.h"

namespace moepack::runtime {
namespace {

// Tokens whose activations are on the executor at once.
constexpr size_t kTokensAtOnce = 4096;
// Rows that a thread moves or adds at a time.
constexpr size_t kRowsOfPiece = 64;
// Floats of a cache line.
constexpr size_t kRowsOfTile = 16;

const quant::Format* FloatFormat() {
  static const quant::Format* const format = quant::FindFormat("f32");
  return format;
}

// Rows [first, first + count) of `table`, transposed.
void Transpose(const FloatTable& table, size_t first, size_t count, size_t jobs,
               std::vector<float>& out) {
  out.resize(count * table.columns);
  const size_t pieces = (table.columns + kRowsOfPiece - 1) / kRowsOfPiece;
  const Status done = ParallelFor(pieces, pieces > 8 ? jobs : 1, [&](size_t piece) -> Status {
    const size_t begin = piece * kRowsOfPiece, end = std::min(begin + kRowsOfPiece, table.columns);
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
    return Ok();
  });
  static_cast<void>(done);  // the work has no errors
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

Status Products::AddProduct(const FloatTable& a, const FloatTable& b, const DoubleBlock& out) {
  const bool same = a.values.data() == b.values.data() && a.columns == b.columns;
  for (size_t first = 0; first < a.rows(); first += kTokensOfSum) {
    const size_t some = std::min(kTokensOfSum, a.rows() - first);
    Transpose(a, first, some, jobs_, left_);
    if (!same) Transpose(b, first, some, jobs_, right_);
    const std::vector<float>& right = same ? left_ : right_;
    // The executor multiplies by transposed matrices, hence the transposed tables. It adds in
    // floats, so only blocks of tokens do; blocks are added in doubles.
    SHARD_TRY(const BufferPtr weights, executor_.Load(std::as_bytes(std::span(right))));
    SHARD_TRY(const Rows x, Take(Use::kIn, a.columns, some));
    SHARD_TRY(const Rows y, Take(Use::kOut, a.columns, b.columns));
    executor_.Write(left_, x);
    executor_.MatMul({weights.get(), 0, FloatFormat(), static_cast<uint32_t>(b.columns),
                      static_cast<uint32_t>(some)},
                     x, y);
    product_.resize(a.columns * b.columns);
    SHARD_CHECK(executor_.Read(y, product_));
    const size_t pieces = (a.columns + kRowsOfPiece - 1) / kRowsOfPiece;
    SHARD_CHECK(ParallelFor(pieces, pieces > 8 ? jobs_ : 1, [&](size_t piece) -> Status {
      const size_t begin = piece * kRowsOfPiece, end = std::min(begin + kRowsOfPiece, a.columns);
      for (size_t row = begin; row < end; ++row) {
        for (size_t column = 0; column < b.columns; ++column)
          out.first[row * out.stride + column] += product_[row * b.columns + column];
      }
      return Ok();
    }));
  }
  return Ok();
}

}  // namespace moepack::runtime
