#include "runtime-shim/refit/products.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>

#include "libshard/base/parallel.h"
#include "quant/format.h"
#include "runtime-shim/cpu/row_kernels.h"

namespace moepack::runtime {
namespace {

// Tokens whose activations are on the executor at once.
constexpr size_t kTokensAtOnce = 4096;
// Rows that a thread moves or adds at a time.
constexpr size_t kRowsOfPiece = 64;
// Fewer rows take less time than waking threads.
constexpr size_t kRowsOfOneThread = 8 * kRowsOfPiece;
// Products over tokens are fastest if rows of weights begin at a multiple of 16 bytes, so tokens of
// zeros are added.
constexpr size_t kRoundTokens = 4;

const quant::Format* FloatFormat() {
  static const quant::Format* const format = quant::FindFormat("f32");
  return format;
}

template <class Work>
void ForRows(size_t rows, size_t jobs, const Work& work) {
  ForPieces(rows, kRowsOfPiece, rows > kRowsOfOneThread ? jobs : 1, work);
}

// Writes the first rows, and zeros to those after them.
void WriteRows(Executor& executor, std::span<const float> values, const Rows& rows) {
  const auto count = static_cast<uint32_t>(values.size() / rows.width);
  executor.Write(values, rows.Slice(0, count));
  if (count == rows.count) return;
  const std::vector<float> zeros(uint64_t{rows.count - count} * rows.width, 0);
  executor.Write(zeros, rows.Slice(count, rows.count - count));
}

FloatMatrix MatrixOf(const FloatTable& table) {
  return FloatMatrix::Of(table.values, table.columns);
}

// The share of its memory that a step leaves to others.
constexpr uint64_t kSpareOfStep = 4;

// Rows of an executor as the weights of a product.
Matrix AsWeights(const Rows& rows) {
  return {rows.buffer, rows.offset * sizeof(float), FloatFormat(), rows.count, rows.width};
}

// Rows, columns and tokens of the product that measures how fast an executor is.
constexpr uint32_t kTrialWidth = 1024;
// So many are asked for at once where they stay on a device.
constexpr size_t kTrialsAtOnce = 32;
constexpr std::chrono::duration<double> kTrialTime{1};

// Multiply-adds per second of the fastest of several calls, each of which runs `products` products,
// because other work on the machine only makes them slower.
Result<double> FastestOf(size_t products, const std::function<Status()>& call) {
  std::chrono::duration<double> all{}, least{std::numeric_limits<double>::infinity()};
  while (all < kTrialTime) {
    const auto start = std::chrono::steady_clock::now();
    SHARD_CHECK(call());
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    least = std::min(least, taken);
    all += taken;
  }
  constexpr double kWidth = kTrialWidth;
  return kWidth * kWidth * kWidth * static_cast<double>(products) / least.count();
}

}  // namespace

void ScaleRows(std::span<const float> factors, size_t jobs, std::span<float> rows) {
  const size_t width = factors.empty() ? 0 : rows.size() / factors.size();
  ForRows(factors.size(), jobs, [&](size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      if (factors[i] == 1) continue;
      for (float& value : rows.subspan(i * width, width)) value *= factors[i];
    }
  });
}

bool Products::HasRoomFor(uint64_t bytes) {
  tables_.clear();
  factors_.clear();
  algebra_->Release();
  const bool fits = bytes + bytes / kSpareOfStep <= executor_.available();
  refused_ = refused_ || !fits;
  return fits;
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

Status Products::Apply(const Linear& linear, std::span<const float> x, std::span<float> y) {
  if (!host_) return Project(linear, x, y);
  host_->Apply(linear, x, y);
  return Ok();
}

Status Products::MultiplyBy(const FloatTable& weights, std::span<const float> x,
                            std::span<float> y) {
  if (host_) {
    host_->MultiplyBy(MatrixOf(weights), x, y);
    return Ok();
  }
  const size_t rows = weights.rows(), columns = weights.columns, count = x.size() / rows;
  SHARD_TRY(const Rows straight, Written(Use::kRight, weights));
  Rows turned;
  if (algebra_ == nullptr) {
    SHARD_TRY(turned, Take(Use::kLeft, columns, rows));
    executor_.Transpose(straight, turned);
  }
  for (size_t first = 0; first < count; first += kTokensAtOnce) {
    const size_t some = std::min(kTokensAtOnce, count - first);
    SHARD_TRY(const Rows in, Take(Use::kIn, some, rows));
    SHARD_TRY(const Rows out, Take(Use::kOut, some, columns));
    executor_.Write(x.subspan(first * rows, some * rows), in);
    if (algebra_ != nullptr) {
      algebra_->Multiply(Straight(in), Straight(straight), out);
    } else {
      executor_.MatMul(AsWeights(turned), in, out);
    }
    SHARD_CHECK(executor_.Read(out, y.subspan(first * columns, some * columns)));
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
  if (host_) {
    std::vector<float> weighed;
    if (form.weigh_inputs) {
      weighed.assign(x.begin(), x.end());
      ScaleRows(gates, jobs_, weighed);
      x = weighed;
    }
    host_->Activations(expert, form.activation, x, out);
    if (!form.weigh_inputs) ScaleRows(gates, jobs_, out);
    return Ok();
  }
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
  if (host_) {
    host_->Output(expert, form.activation, x, out);
    return Ok();
  }
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

// The executor multiplies by transposed matrices.
Result<Rows> Products::Transposed(Use use, std::span<const float> rows, size_t columns) {
  const size_t count = rows.size() / columns;
  const size_t all = (count + kRoundTokens - 1) / kRoundTokens * kRoundTokens;
  SHARD_TRY(const Rows in, Take(Use::kIn, all, columns));
  SHARD_TRY(const Rows turned, Take(use, columns, all));
  WriteRows(executor_, rows, in);
  executor_.Transpose(in, turned);
  return turned;
}

Result<Rows> Products::Written(Use use, const FloatTable& table) {
  SHARD_TRY(const Rows rows, Take(use, table.rows(), table.columns));
  executor_.Write(table.values, rows);
  return rows;
}

Result<Products::Sides> Products::WrittenSides(const FloatTable& a, const FloatTable& b) {
  const bool same = a.values.data() == b.values.data() && a.columns == b.columns;
  SHARD_TRY(const Rows left, Written(Use::kLeft, a));
  if (same) return Sides{left, left};
  SHARD_TRY(const Rows right, Written(Use::kRight, b));
  return Sides{left, right};
}

// One block after another is moved to the device, and only their sum comes back.
Status Products::AddWithAlgebra(const FloatTable& a, const FloatTable& b, const DoubleBlock& out) {
  if (a.rows() == 0) return Ok();
  SHARD_TRY(const Doubles sums, tables_[Use::kOut].TakeDoubles(executor_, a.columns, b.columns));
  algebra_->Clear(sums);
  for (size_t first = 0; first < a.rows(); first += kTokensOfSum) {
    const size_t some = std::min(kTokensOfSum, a.rows() - first);
    SHARD_TRY(const Sides sides, WrittenSides(a.Some(first, some), b.Some(first, some)));
    algebra_->AddProduct(sides.left, sides.right, kTokensOfSum, sums);
  }
  sums_.resize(a.columns * b.columns);
  SHARD_CHECK(algebra_->Read(sums, sums_));
  ForRows(a.columns, jobs_, [&](size_t begin, size_t end) {
    for (size_t row = begin; row < end; ++row) {
      for (size_t column = 0; column < b.columns; ++column)
        out.first[row * out.stride + column] += sums_[row * b.columns + column];
    }
  });
  return Ok();
}

Result<Rows> Products::Sums(const FloatTable& a, const FloatTable& b) {
  const bool same = a.values.data() == b.values.data() && a.columns == b.columns;
  SHARD_TRY(const Rows left, Transposed(Use::kLeft, a.values, a.columns));
  Rows right = left;
  if (!same) {
    SHARD_TRY(right, Transposed(Use::kRight, b.values, b.columns));
  }
  SHARD_TRY(const Rows sums, Take(Use::kOut, a.columns, b.columns));
  executor_.MatMul(AsWeights(right), left, sums);
  return sums;
}

// The executor adds in floats, so it only adds up the tokens of a block; the blocks are added up in
// doubles.
Status Products::AddProduct(const FloatTable& a, const FloatTable& b, const DoubleBlock& out) {
  if (host_) return AddOnHost(a, b, false, out);
  if (algebra_ != nullptr) return AddWithAlgebra(a, b, out);
  for (size_t first = 0; first < a.rows(); first += kTokensOfSum) {
    const size_t some = std::min(kTokensOfSum, a.rows() - first);
    SHARD_TRY(const Rows sums, Sums(a.Some(first, some), b.Some(first, some)));
    product_.resize(a.columns * b.columns);
    SHARD_CHECK(executor_.Read(sums, product_));
    ForRows(a.columns, jobs_, [&](size_t begin, size_t end) {
      for (size_t row = begin; row < end; ++row) {
        for (size_t column = 0; column < b.columns; ++column)
          out.first[row * out.stride + column] += product_[row * b.columns + column];
      }
    });
  }
  return Ok();
}

Status Products::AddSquare(const FloatTable& a, const DoubleBlock& out) {
  return host_ ? AddOnHost(a, a, true, out) : AddProduct(a, a, out);
}

Status Products::AddOnHost(const FloatTable& a, const FloatTable& b, bool upper,
                           const DoubleBlock& out) {
  for (size_t first = 0; first < a.rows(); first += kTokensOfSum) {
    const size_t some = std::min(kTokensOfSum, a.rows() - first);
    host_->AddProduct(MatrixOf(a.Some(first, some)), MatrixOf(b.Some(first, some)), upper,
                      {out.first, out.stride});
  }
  return Ok();
}

Status Products::Product(const FloatTable& a, const FloatTable& b, std::span<float> out) {
  if (host_) {
    host_->Product(MatrixOf(a), MatrixOf(b), out);
    return Ok();
  }
  if (algebra_ == nullptr) {
    SHARD_TRY(const Rows sums, Sums(a, b));
    return executor_.Read(sums, out);
  }
  SHARD_TRY(const Sides sides, WrittenSides(a, b));
  SHARD_TRY(const Rows sums, Take(Use::kOut, a.columns, b.columns));
  algebra_->Multiply(Turned(sides.left), Straight(sides.right), sums);
  return executor_.Read(sums, out);
}

Status Products::HoldTokens(const ExpertForm& form, std::span<const float> x,
                            std::span<const float> gates, std::span<const float> roots,
                            std::span<const float> residuals) {
  const size_t count = gates.size();
  factors_.clear();
  if (count == 0) return Ok();
  if (host_) {
    host_tokens_.assign(x.begin(), x.end());
    if (form.weigh_inputs) ScaleRows(gates, jobs_, host_tokens_);
    host_residuals_.assign(residuals.begin(), residuals.end());
    for (size_t i = 0; i < count; ++i)
      factors_.push_back(roots[i] * (form.weigh_inputs ? 1 : gates[i]));
    return Ok();
  }
  SHARD_TRY(residuals_, Transposed(Use::kResiduals, residuals, residuals.size() / count));
  SHARD_TRY(tokens_, Take(Use::kTokens, residuals_.width, x.size() / count));
  WriteRows(executor_, x, tokens_);
  if (form.weigh_inputs) executor_.ScaleRows(tokens_.Slice(0, static_cast<uint32_t>(count)), gates);
  // Factors of 0 take out the tokens that Transposed added.
  factors_.assign(residuals_.width, 0);
  for (size_t i = 0; i < count; ++i) factors_[i] = roots[i] * (form.weigh_inputs ? 1 : gates[i]);
  return Ok();
}

Status Products::MeasureNeurons(const MlpWeights& expert, const ExpertForm& form,
                                std::vector<NeuronSize>& sizes) {
  const size_t inner = expert.inner();
  sizes.assign(inner, {});
  if (factors_.empty()) return Ok();
  if (host_) {
    MeasureOnHost(expert, form, sizes);
    return Ok();
  }
  SHARD_TRY(const Rows phi, Take(Use::kGate, factors_.size(), inner));
  SHARD_TRY(const Rows turned, Take(Use::kLeft, inner, factors_.size()));
  SHARD_TRY(const Rows products, Take(Use::kOut, inner, residuals_.count));
  SHARD_TRY(const Rows norms, Take(Use::kSizes, 2 * inner, 2));
  SHARD_CHECK(Activate(expert, form, tokens_, phi));
  executor_.ScaleRows(phi, factors_);
  executor_.Transpose(phi, turned);
  executor_.MatMul(AsWeights(residuals_), turned, products);
  const auto neurons = static_cast<uint32_t>(inner);
  executor_.MeasureRows(products, norms.Slice(0, neurons));
  executor_.MeasureRows(turned, norms.Slice(neurons, neurons));
  std::vector<float> values(norms.values());
  SHARD_CHECK(executor_.Read(norms, values));
  for (size_t i = 0; i < inner; ++i) sizes[i] = {values[2 * i], values[2 * (inner + i)]};
  return Ok();
}

void Products::MeasureOnHost(const MlpWeights& expert, const ExpertForm& form,
                             std::vector<NeuronSize>& sizes) {
  const size_t inner = sizes.size(), tokens = factors_.size();
  const size_t width = host_residuals_.size() / tokens;
  phi_.resize(tokens * inner);
  host_->Activations(expert, form.activation, host_tokens_, phi_);
  ScaleRows(factors_, jobs_, phi_);
  explained_.resize(inner * width);
  host_->Product(FloatMatrix::Of(phi_, inner), FloatMatrix::Of(host_residuals_, width), explained_);
  std::vector<double> squares(inner, 0);
  for (size_t token = 0; token < tokens; ++token) {
    const float* const row = phi_.data() + token * inner;
    for (size_t i = 0; i < inner; ++i) squares[i] += double{row[i]} * row[i];
  }
  for (size_t i = 0; i < inner; ++i)
    sizes[i] = {SizeOf(std::span(explained_).subspan(i * width, width)).norm,
                static_cast<float>(std::sqrt(squares[i]))};
}

Result<double> RateOfCalls(Products& products) {
  const std::vector<float> values(size_t{kTrialWidth} * kTrialWidth, 0.5f);
  SHARD_TRY(const BufferPtr buffer, products.executor().Load(std::as_bytes(std::span(values))));
  Linear weights;
  weights.weight = {buffer.get(), 0, FloatFormat(), kTrialWidth, kTrialWidth};
  std::vector<float> out(values.size());
  return FastestOf(1, [&] { return products.Apply(weights, values, out); });
}

Result<double> RateOfRefit(Products& products) {
  DenseAlgebra* const algebra = products.algebra();
  if (algebra == nullptr) return RateOfCalls(products);
  Executor& executor = products.executor();
  const std::vector<float> values(size_t{kTrialWidth} * kTrialWidth, 0.5f);
  const auto bytes = std::as_bytes(std::span(values));
  SHARD_TRY(const BufferPtr buffer, executor.Load(bytes));
  SHARD_TRY(const BufferPtr result, executor.Allocate(bytes.size()));
  const Rows rows = {buffer.get(), 0, kTrialWidth, kTrialWidth, kTrialWidth};
  const Rows out = {result.get(), 0, kTrialWidth, kTrialWidth, kTrialWidth};
  return FastestOf(kTrialsAtOnce, [&] {
    for (size_t i = 0; i < kTrialsAtOnce; ++i) algebra->Multiply(Straight(rows), Turned(rows), out);
    return executor.Finish();
  });
}

}  // namespace moepack::runtime
