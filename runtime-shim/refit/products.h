// The products that a refit consists of, on an executor. Sums over tokens are computed in floats
// for blocks of a fixed number of tokens, which are added up in doubles in order: the bits depend
// neither on threads nor on memory.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

// Tokens of a block whose products are added up in floats.
inline constexpr size_t kTokensOfSum = 2048;

// Borrowed consecutive rows of `columns` floats.
struct FloatTable {
  std::span<const float> values;
  size_t columns = 0;
  size_t rows() const { return columns == 0 ? 0 : values.size() / columns; }
};

// Part of a matrix of doubles: row i starts at first + i * stride.
struct DoubleBlock {
  double* first = nullptr;
  size_t stride = 0;
};

// A table that many others are multiplied with: on the executor, transposed, in blocks of
// kTokensOfSum tokens.
struct HeldTable {
  struct Block {
    std::vector<float> values;  // borrowed by executors on host memory
    BufferPtr weights;
  };
  size_t columns = 0;
  std::vector<Block> blocks;
};

// How experts are applied.
struct ExpertForm {
  Activation activation = Activation::kSilu;
  bool weigh_inputs = false;  // the gates multiply the experts' inputs instead of their outputs
};

class Products {
 public:
  // Borrows the executor. `jobs`: threads for the host's work, 0 for one per core.
  Products(Executor& executor, size_t jobs) : executor_(executor), jobs_(jobs) {}

  Executor& executor() const { return executor_; }
  size_t jobs() const { return jobs_; }

  // y = x weights' + bias; x [tokens, columns], y [tokens, rows].
  Status Project(const Linear& linear, std::span<const float> x, std::span<float> y);
  // The factors of an expert's down projection, including gates: gate * act(x), or act(gate * x). x
  // [tokens, H], gates [tokens], out [tokens, F].
  Status Activations(const MlpWeights& expert, const ExpertForm& form, std::span<const float> x,
                     std::span<const float> gates, std::span<float> out);
  // An expert's output without a gate: out [tokens, H].
  Status Output(const MlpWeights& expert, const ExpertForm& form, std::span<const float> x,
                std::span<float> out);
  // out[i][j] += sum over rows of a[row][i] * b[row][j]. REQUIRES: equally many rows.
  Status AddProduct(const FloatTable& a, const FloatTable& b, const DoubleBlock& out);
  // Transposes `table` and loads it; the result does not need it any more.
  Result<HeldTable> Hold(const FloatTable& table);
  // squares[i] = |sum over rows of a[row][i] * b[row]|^2, for the columns of `a`. REQUIRES: equally
  // many rows.
  Status SquareProduct(const FloatTable& a, const HeldTable& b, std::span<double> squares);

 private:
  // Scratch rows, by purpose; they grow as needed.
  enum class Use : uint8_t { kIn, kGate, kUp, kOut };
  Result<Rows> Take(Use use, size_t count, size_t width);
  Status Activate(const MlpWeights& expert, const ExpertForm& form, const Rows& in,
                  const Rows& gate);
  // product_ = a'b for `count` tokens of `a`, transposed in left_, and the same ones of `b`.
  Status MultiplyBlock(size_t a_columns, const Buffer& b, size_t b_columns, size_t count);

  Executor& executor_;
  size_t jobs_;
  std::map<Use, BufferPtr> buffers_;
  std::vector<float> left_, right_, product_;
};

}  // namespace moepack::runtime
