// An Executor is a device with the few operations that a transformer consists of. Activations are
// F32 rows. Weights stay in their blocks, and the operation that uses them decodes them. One
// forward pass (forward.cc) drives every executor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "quant/format.h"
#include "runtime-shim/executor/shapes.h"
#include "runtime-shim/executor/tensor_bytes.h"

namespace moepack::runtime {

class DenseAlgebra;  // dense_algebra.h

// The experts of a layer and the rows of a batch that picked them.

struct Linear {
  Matrix weight, bias;
};

// Without a gate, the activation applies to `up` alone.
struct MlpWeights {
  Linear gate, up, down;
  float output_scale = 1;  // multiplies an expert's gates (Gemma-4)
  // The first matrix; its rows are the width of the MLP.
  const Linear& first() const { return gate.weight ? gate : up; }
  uint32_t inner() const { return first().weight.rows; }
  explicit operator bool() const { return static_cast<bool>(down.weight); }
};

// An expert with the rows that picked it, ascending, and the gate of each.
struct ExpertRows {
  const MlpWeights* weights = nullptr;
  std::vector<uint32_t> rows;
  std::vector<float> gates;
};

struct ExpertBatch {
  std::span<const ExpertRows> experts;  // in ascending id; each has at least one row
  Rows x, sum;                          // all rows of the batch
  Activation activation = Activation::kSilu;
  bool weigh_inputs = false;  // the gates multiply the experts' inputs instead of their outputs
  // Scratch rows, as many as x has: as wide as x, and as the widest expert.
  Rows in, out, gate, up;
  Rows zeros;  // as x, all zero
  Rows sizes;  // scratch of two values for each row of each expert
};

// For each row, the Euclidean norm and the largest magnitude of an expert's output before the gate.
// One value per row, expert after expert.
struct OutputSizes {
  std::vector<float> norms, peaks;
};

// Operations run in the order of the calls, and a call may return before its operation is done. The
// caller has checked the arguments: shapes fit, indexes are in range, and outputs do not overlap
// inputs unless a comment allows the same rows. A device error is returned by the next Read or
// Finish (kUnavailable: device lost or out of memory). Only one thread may use an executor.
class Executor {
 public:
  virtual ~Executor() = default;

  virtual std::string name() const = 0;         // "cpu", "vulkan", "cuda"
  virtual std::string description() const = 0;  // "llvmpipe (LLVM 15.0.6, 256 bits), Vulkan 1.3"
  // The bytes that can still be allocated; UINT64_MAX if the device does not say.
  virtual uint64_t available() const = 0;
  // True if the weights of MatMul and Embed may be in this format.
  virtual bool Supports(const quant::Format* format) const = 0;
  // What it offers beside the operations below; null for nothing. Lives as long as the executor.
  virtual DenseAlgebra* algebra() { return nullptr; }
  // Why algebra() is null although executors of this kind have one.
  virtual std::optional<Error> WithoutAlgebra() { return std::nullopt; }

  // Allocates memory for activations and caches. kUnavailable, with the requested bytes, if there
  // is too little.
  virtual Result<BufferPtr> Allocate(uint64_t bytes) = 0;
  // Loads weights. An executor on host memory borrows the bytes, which must outlive the buffer;
  // others copy them, to one place. Where experts are in different places, no Matrix may have rows
  // of two of them.
  virtual Result<BufferPtr> Load(const TensorBytes& bytes) = 0;

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

  // sizes[t] = the Euclidean norm of x[t], and its largest magnitude. In a row with NaN, the norm
  // is NaN and the magnitude is undefined. Executors may add squares in F32.
  virtual void MeasureRows(const Rows& x, const Rows& sizes) = 0;

  virtual void Copy(const Rows& from, const Rows& to) = 0;
  virtual void Transpose(const Rows& x, const Rows& y) = 0;                   // y[c][t] = x[t][c]
  virtual void AddBias(const Rows& x, const Matrix& bias) = 0;                // x[t] += bias
  virtual void Add(const Rows& x, const Rows& y, float scale) = 0;            // x += scale * y
  virtual void Scale(const Rows& x, float factor) = 0;                        // x *= factor
  virtual void ScaleRows(const Rows& x, std::span<const float> factors) = 0;  // x[t] *= factors[t]
  virtual void ScaleBySigmoid(const Rows& x, const Rows& gate) = 0;  // x[t] *= sigmoid(gate[t][0])
  // gate = act(gate, up); kSquaredRelu ignores `up`
  virtual void Activate(Activation activation, const Rows& gate, const Rows& up) = 0;

  // Turns pair i of token t by the angle whose cosine is turns[t][i] and whose sine is
  // turns[t][dims / 2 + i]; both may include a factor.
  virtual void Rotate(const Rows& x, const Rotation& rotation, const Rows& turns) = 0;
  // out[t] = softmax(scale * q k^T) v. `sinks` (empty, or one F32 per head) take part in the
  // softmax as one more product without a value. Keys and values have at least shape.past +
  // queries.count rows of the cache; values may be columns of the keys.
  struct AttentionInputs {
    Rows queries, keys, values;
    Matrix sinks;
  };
  virtual void Attention(const AttentionShape& shape, const AttentionInputs& inputs,
                         const Rows& out) = 0;

  // y[i] = x[rows[i]] * factors[i]; without factors they are 1
  virtual void Gather(const Rows& x, std::span<const uint32_t> rows, std::span<const float> factors,
                      const Rows& y) = 0;
  // x[rows[i]] += factors[i] * y[i]; the rows are distinct
  virtual void ScatterAdd(const Rows& x, std::span<const uint32_t> rows,
                          std::span<const float> factors, const Rows& y) = 0;

  // y = weight x + bias
  void Project(const Linear& linear, const Rows& x, const Rows& y);
  // rows.out = down(act(gate(x), up(x))), or down(act(up(x))) without a gate. `gate` and `up` have
  // at least the rows of x and the width of the MLP.
  struct MlpRows {
    Rows gate, up, out;
  };
  void RunMlp(const MlpWeights& mlp, Activation activation, const Rows& x, const MlpRows& rows);
  // sum[t] = the outputs of the experts that picked row t, times their gates, added in ascending
  // id. `sizes` is empty, and is filled; null if nobody needs it. This form runs one expert after
  // another with the operations above, and only it needs the batch's scratch rows.
  virtual Status MixExperts(const ExpertBatch& batch, OutputSizes* sizes);
};

// The operations of the class above but MatMul: SHARD_OPERATION(name, (parameters), (their names)).
// Executors declare their overrides with this list.
#define SHARD_OPERATIONS(SHARD_OPERATION)                                                         \
  SHARD_OPERATION(Embed, (const Matrix& weights, std::span<const uint32_t> ids, const Rows& y),   \
                  (weights, ids, y))                                                              \
  SHARD_OPERATION(RmsNorm, (const Rows& x, const NormWeights& norm, const Rows& y), (x, norm, y)) \
  SHARD_OPERATION(MeasureRows, (const Rows& x, const Rows& sizes), (x, sizes))                    \
  SHARD_OPERATION(Copy, (const Rows& from, const Rows& to), (from, to))                           \
  SHARD_OPERATION(Transpose, (const Rows& x, const Rows& y), (x, y))                              \
  SHARD_OPERATION(AddBias, (const Rows& x, const Matrix& bias), (x, bias))                        \
  SHARD_OPERATION(Add, (const Rows& x, const Rows& y, float scale), (x, y, scale))                \
  SHARD_OPERATION(Scale, (const Rows& x, float factor), (x, factor))                              \
  SHARD_OPERATION(ScaleRows, (const Rows& x, std::span<const float> factors), (x, factors))       \
  SHARD_OPERATION(ScaleBySigmoid, (const Rows& x, const Rows& gate), (x, gate))                   \
  SHARD_OPERATION(Activate, (Activation activation, const Rows& gate, const Rows& up),            \
                  (activation, gate, up))                                                         \
  SHARD_OPERATION(Rotate, (const Rows& x, const Rotation& rotation, const Rows& turns),           \
                  (x, rotation, turns))                                                           \
  SHARD_OPERATION(Attention,                                                                      \
                  (const AttentionShape& shape, const AttentionInputs& inputs, const Rows& out),  \
                  (shape, inputs, out))                                                           \
  SHARD_OPERATION(Gather,                                                                         \
                  (const Rows& x, std::span<const uint32_t> rows, std::span<const float> factors, \
                   const Rows& y),                                                                \
                  (x, rows, factors, y))                                                          \
  SHARD_OPERATION(ScatterAdd,                                                                     \
                  (const Rows& x, std::span<const uint32_t> rows, std::span<const float> factors, \
                   const Rows& y),                                                                \
                  (x, rows, factors, y))

// Declares the override of an operation in the class of an executor.
#define SHARD_OVERRIDE(name, parameters, names) void name parameters override;

// One kind of executor, and what it is opened with; runtime-shim/devices/executors.h lists them.

inline constexpr size_t kMaxThreads = 1024;  // the most that the CPU executor starts

struct ExecutorOptions {
  uint32_t device = 0;             // the number in `moepack run --list-devices`
  uint32_t threads = 0;            // CPU: 0 for one per core
  bool round_activations = false;  // CPU: round inputs of products as llama.cpp's kernels do
  // CPU: multiply in packed panels, faster with thousands of tokens and slower with a few. The bits
  // are others, and as independent of the rest of a pass.
  bool packed = false;
  // Vulkan: turns validation layers on; their messages make Read and Finish fail
  bool validation = false;
};

// A kind of executor: one row in devices/executors.cc.
struct ExecutorKind {
  const char* name;
  // why this build lacks it ("nvcc was not found when configuring"); null if it has it
  const char* missing;
  // kUnavailable if there is no such device.
  Result<std::unique_ptr<Executor>> (*open)(const ExecutorOptions& options);
  // Returns one line per device, "0: llvmpipe, Vulkan 1.3\n"; empty if there is none.
  std::string (*devices)();
};

}  // namespace moepack::runtime
