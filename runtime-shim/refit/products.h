// The products that a refit consists of, on an executor or on the host. The bits do not depend on
// threads; nor on memory, except that an executor with dense algebra takes a whole step of a refit
// where it has room for it (HasRoomFor).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/executor/dense_algebra.h"
#include "runtime-shim/executor/executor.h"
#include "runtime-shim/refit/device_table.h"
#include "runtime-shim/refit/host_products.h"

namespace moepack::runtime {

// Tokens of a block whose products are added up in floats.
inline constexpr size_t kTokensOfSum = 2048;

// Borrowed consecutive rows of `columns` floats.
struct FloatTable {
  std::span<const float> values;
  size_t columns = 0;
  size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
  FloatTable Some(size_t first, size_t count) const {
    return {values.subspan(first * columns, count * columns), columns};
  }
};

// Part of a matrix of doubles: row i starts at first + i * stride.
struct DoubleBlock {
  double* first = nullptr;
  size_t stride = 0;
};

// How experts are applied.
struct ExpertForm {
  Activation activation = Activation::kSilu;
  bool weigh_inputs = false;  // the gates multiply the experts' inputs instead of their outputs
};

// How much of a residual a neuron explains: |phi'r|, r [t, H] the residual, and |phi|, phi [t] its
// activations.
struct NeuronSize {
  float explained = 0, own = 0;
};

// Row i times factors[i].
void ScaleRows(std::span<const float> factors, size_t jobs, std::span<float> rows);

class Products {
 public:
  // Borrows the executor. `jobs`: threads for the host's work, 0 for one per core. All products but
  // Project are computed on the host itself where the executor is the cpu.
  Products(Executor& executor, size_t jobs) : executor_(executor), jobs_(jobs) {
    if (executor.name() == "cpu") {
      host_.emplace(jobs);
    } else {
      algebra_ = executor.algebra();
    }
  }

  Executor& executor() const { return executor_; }
  size_t jobs() const { return jobs_; }
  bool on_host() const { return host_.has_value(); }
  // The executor's; null if it has none.
  DenseAlgebra* algebra() const { return algebra_; }
  // Whether a step that takes so many bytes fits into the memory of an executor with dense algebra,
  // with a quarter to spare for what its libraries and other products take. What earlier calls left
  // there, and HoldTokens holds, is freed first, so that the answer does not depend on them.
  // REQUIRES: algebra().
  bool HasRoomFor(uint64_t bytes);
  // Whether HasRoomFor has said no since the last call.
  bool TakeRefusal() { return std::exchange(refused_, false); }

  // y = x weights' + bias; x [tokens, columns], y [tokens, rows]. Always on the executor, with the
  // bits of a forward pass.
  Status Project(const Linear& linear, std::span<const float> x, std::span<float> y);
  // The same with other bits.
  Status Apply(const Linear& linear, std::span<const float> x, std::span<float> y);
  // y = x weights; weights [rows, columns] on the host, x [tokens, rows], y [tokens, columns]. It
  // is also the gradient of Apply's inputs from that of its outputs.
  Status MultiplyBy(const FloatTable& weights, std::span<const float> x, std::span<float> y);
  // The factors of an expert's down projection, including gates: gate * act(x), or act(gate * x). x
  // [tokens, H], gates [tokens], out [tokens, F].
  Status Activations(const MlpWeights& expert, const ExpertForm& form, std::span<const float> x,
                     std::span<const float> gates, std::span<float> out);
  // Leaves act(gate(in), up(in)) in `gate`, all of them rows of the executor, which is not the cpu.
  Status Activate(const MlpWeights& expert, const ExpertForm& form, const Rows& in,
                  const Rows& gate);
  // An expert's output without a gate: out [tokens, H].
  Status Output(const MlpWeights& expert, const ExpertForm& form, std::span<const float> x,
                std::span<float> out);
  // out[i][j] += sum over rows of a[row][i] * b[row][j], in floats for kTokensOfSum rows each,
  // which are added up in doubles in order. REQUIRES: equally many rows.
  Status AddProduct(const FloatTable& a, const FloatTable& b, const DoubleBlock& out);
  // The same of a table with itself: only values with i <= j are sure to be there.
  Status AddSquare(const FloatTable& a, const DoubleBlock& out);
  // out[i][j] = sum over rows of a[row][i] * b[row][j], in floats.
  Status Product(const FloatTable& a, const FloatTable& b, std::span<float> out);

  // The tokens that MeasureNeurons uses: inputs x [t, H], gates and roots of weights [t], and
  // residuals [t, H], scaled by the roots. They stay on the executor until the next call.
  Status HoldTokens(const ExpertForm& form, std::span<const float> x, std::span<const float> gates,
                    std::span<const float> roots, std::span<const float> residuals);
  // Measures the neurons of an expert, [F], as if it had these tokens. Unlike AddProduct this adds
  // up all tokens in floats.
  Status MeasureNeurons(const MlpWeights& expert, const ExpertForm& form,
                        std::vector<NeuronSize>& sizes);

 private:
  // Scratch rows, by purpose.
  enum class Use : uint8_t { kIn, kGate, kUp, kOut, kLeft, kRight, kTokens, kResiduals, kSizes };
  Result<Rows> Take(Use use, size_t count, size_t width) {
    return tables_[use].Take(executor_, count, width);
  }
  // Rows of a table on the executor, transposed, for products over tokens.
  Result<Rows> Transposed(Use use, std::span<const float> rows, size_t columns);

  // The rows of a table on the executor.
  Result<Rows> Written(Use use, const FloatTable& table);
  // The sides of a product, of which only one is written if they are the same.
  struct Sides {
    Rows left, right;
  };
  Result<Sides> WrittenSides(const FloatTable& a, const FloatTable& b);
  Status AddWithAlgebra(const FloatTable& a, const FloatTable& b, const DoubleBlock& out);
  // Sums of the products of some rows, on the executor.
  Result<Rows> Sums(const FloatTable& a, const FloatTable& b);
  Status AddOnHost(const FloatTable& a, const FloatTable& b, bool upper, const DoubleBlock& out);
  void MeasureOnHost(const MlpWeights& expert, const ExpertForm& form,
                     std::vector<NeuronSize>& sizes);

  Executor& executor_;
  size_t jobs_;
  std::optional<HostProducts> host_;
  DenseAlgebra* algebra_ = nullptr;
  bool refused_ = false;
  std::map<Use, DeviceTable> tables_;
  std::vector<float> product_;
  std::vector<double> sums_;
  // Of HoldTokens.
  Rows tokens_, residuals_;     // [t, H], [H, t]
  std::vector<float> factors_;  // of the activations, [t]
  std::vector<float> host_tokens_, host_residuals_, phi_, explained_;
};

// Multiply-adds per second, measured for about a second; errors are those of the executor. Of
// products whose rows are where the host has them:
Result<double> RateOfCalls(Products& products);
// Of those of a refit, whose rows stay on a device with dense algebra:
Result<double> RateOfRefit(Products& products);

}  // namespace moepack::runtime
