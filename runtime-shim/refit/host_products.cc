#include "runtime-shim/refit/host_products.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "runtime-shim/cpu/row_kernels.h"
#include "runtime-shim/reference/host_executor.h"

namespace moepack::runtime {
namespace {

// Tokens whose values between projections are in memory at once.
constexpr size_t kTokensTogether = 4096;

void CopyVector(const Matrix& vector, std::vector<float>& to) {
  std::vector<float> scratch;
  const std::span<const float> values = VectorOf(vector, scratch);
  to.assign(values.begin(), values.end());
}

}  // namespace

void HostProducts::PackWeights(const Linear& linear, PackedMatrix& packed,
                               std::vector<float>& bias) {
  const Matrix& weight = linear.weight;
  packed.PackTurned(FloatMatrix::Of(FloatsOf(weight, 0, weight.rows, decoded_), weight.columns),
                    jobs_);
  CopyVector(linear.bias, bias);
}

void HostProducts::Apply(const Linear& linear, std::span<const float> x, std::span<float> y) {
  PackWeights(linear, other_, other_bias_);
  MultiplyPacked(FloatMatrix::Of(x, linear.weight.columns), other_, other_bias_, jobs_, y);
}

void HostProducts::MultiplyBy(const FloatMatrix& weights, std::span<const float> x,
                              std::span<float> y) {
  other_.Pack(weights, jobs_);
  MultiplyPacked(FloatMatrix::Of(x, weights.rows), other_, {}, jobs_, y);
}

void HostProducts::Activate(Activation activation, const FloatMatrix& in, std::span<float> out) {
  const size_t inner = first_.columns();
  MultiplyPacked(in, first_, first_bias_, jobs_, out);
  if (gated_) {
    up_rows_.resize(out.size());
    MultiplyPacked(in, up_, up_bias_, jobs_, up_rows_);
  }
  ForPieces(in.rows, RowsWorthAThread(inner), jobs_, [&](size_t begin, size_t end) {
    // Row by row, so that bits do not depend on the rows beside a row.
    for (size_t row = begin; row < end; ++row) {
      const auto gate = out.subspan(row * inner, inner);
      const auto up = gated_ ? std::span<const float>(up_rows_).subspan(row * inner, inner)
                             : std::span<const float>(gate);
      ActivateFast(activation, gate, up);
    }
  });
}

void HostProducts::Activations(const MlpWeights& expert, Activation activation,
                               std::span<const float> x, std::span<float> out) {
  gated_ = static_cast<bool>(expert.gate.weight);
  PackWeights(expert.first(), first_, first_bias_);
  if (gated_) PackWeights(expert.up, up_, up_bias_);
  const FloatMatrix in = FloatMatrix::Of(x, expert.first().weight.columns);
  const size_t inner = expert.inner();
  for (size_t first = 0; first < in.rows; first += kTokensTogether) {
    const size_t some = std::min(kTokensTogether, in.rows - first);
    Activate(activation, in.Rows(first, some), out.subspan(first * inner, some * inner));
  }
}

void HostProducts::Output(const MlpWeights& expert, Activation activation, std::span<const float> x,
                          std::span<float> out) {
  inner_.resize(x.size() / expert.first().weight.columns * expert.inner());
  Activations(expert, activation, x, inner_);
  Apply(expert.down, inner_, out);
}

void HostProducts::Product(const FloatMatrix& a, const FloatMatrix& b, std::span<float> out) {
  const size_t stride = TurnedStride(a.rows);
  TurnMatrix(a, stride, jobs_, turned_);
  other_.Pack(b, jobs_);
  MultiplyPacked({turned_.data(), a.columns, a.rows, stride}, other_, {}, jobs_, out);
}

void HostProducts::AddProduct(const FloatMatrix& a, const FloatMatrix& b, bool upper,
                              const DoubleRows& out) {
  const size_t stride = TurnedStride(a.rows);
  TurnMatrix(a, stride, jobs_, turned_);
  other_.Pack(b, jobs_);
  AddPacked({turned_.data(), a.columns, a.rows, stride}, other_, upper, jobs_, out);
}

}  // namespace moepack::runtime
