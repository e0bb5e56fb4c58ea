// Executor: a device and the few operations that a transformer is made of. Activations are F32
// rows; weights stay in their blocks and are decoded by the operation that uses them. One model
// description (forward.cc) drives every executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "libshard/base/result.h"
#include "quant/format.h"
#include "runtime-shim/executor/shapes.h"

namespace moepack::runtime {

// Operations are done in the order of the calls; they may return before they are done. The caller
// has checked their arguments: shapes fit, indexes are in range, and outputs do not overlap inputs
// unless a comment says that they may be the same rows. An error of the device shows at the next
// Read or Finish (kUnavailable: device lost or out of memory). Not safe for several threads.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual std::string name() const = 0;         // "cpu", "vulkan", "cuda"
  virtual std::string description() const = 0;  // "llvmpipe (LLVM 15.0.6, 256 bits), Vulkan 1.3"
  // Bytes that can still be allocated, as far as the device tells; UINT64_MAX when it does not.
  virtual uint64_t available() const = 0;
  // Whether the weights of MatMul and Embed may be in this format.
  virtual bool Supports(const quant::Format* format) const = 0;

  // Memory for activations and caches. kUnavailable, with the bytes asked for, when there is none.
  virtual Result<BufferPtr> Allocate(uint64_t bytes) = 0;
  // Weights. An executor that works on host memory borrows `bytes`, which must outlive the buffer;
  // others copy them.
  virtual Result<BufferPtr> Load(std::span<const std::byte> bytes) = 0;

  virtual void Write(std::span<const float> values, const Rows& to) = 0;  // row after row
  virtual Status Read(const Rows& from, std::span<float> values) = 0;
  virtual Status Finish() = 0;

  // y[t][r] = sum over c of weights[r][c] * x[t][c]
  virtual void MatMul(const Matrix& weights, const Rows& x, const Rows& y) = 0;
  // y[i] = row ids[i] of `weights`
  virtual void Embed(const Matrix& weights, std::span<const uint32_t> ids, const Rows& y) = 0;

  // y = x / sqrt(mean(x^2) + eps) * weight + bias, row by row; weight and bias may be empty.
  // y may be x.
  struct NormWeights {
    Matrix weight = {}, bias = {};
    float eps = 0;
  };
  virtual void RmsNorm(const Rows& x, const NormWeights& norm, const Rows& y) = 0;

  virtual void Copy(const Rows& from, const Rows& to) = 0;
  virtual void AddBias(const Rows& x, const Matrix& bias) = 0;                // x[t] += bias
  virtual void Add(const Rows& x, const Rows& y, float scale) = 0;            // x += scale * y
  virtual void Scale(const Rows& x, float factor) = 0;                        // x *= factor
  virtual void ScaleRows(const Rows& x, std::span<const float> factors) = 0;  // x[t] *= factors[t]
  virtual void ScaleBySigmoid(const Rows& x, const Rows& gate) = 0;  // x[t] *= sigmoid(gate[t][0])
  // gate = act(gate, up)
  virtual void Activate(Activation kind, const Rows& gate, const Rows& up) = 0;

  // Turns pair i of token t by the angle whose cosine is turns[t][i] and whose sine is
  // turns[t][dims / 2 + i]; both may carry a factor.
  virtual void Rotate(const Rows& x, const Rotation& rotation, const Rows& turns) = 0;
  // out[t] = softmax(scale * q k^T) v. `sinks` (empty, or one F32 per head) join the softmax as one
  // more product without a value. Keys and values are rows of the cache, at least
  // shape.past + queries.count of them; values may be columns of the keys.
  struct AttentionInputs {
    Rows queries, keys, values;
    Matrix sinks;
  };
  virtual void Attention(const AttentionShape& shape, const AttentionInputs& inputs,
                         const Rows& out) = 0;

  // y[i] = x[rows[i]] * factors[i]; no factors: 1
  virtual void Gather(const Rows& x, std::span<const uint32_t> rows, std::span<const float> factors,
                      const Rows& y) = 0;
  // x[rows[i]] += factors[i] * y[i]; the rows are distinct
  virtual void ScatterAdd(const Rows& x, std::span<const uint32_t> rows,
                          std::span<const float> factors, const Rows& y) = 0;
};

}  // namespace moepack::runtime
