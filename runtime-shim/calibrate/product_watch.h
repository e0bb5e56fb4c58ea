// Sees what the matrices of a layer are multiplied with, and lets a pass run with encoded matrices
// in their place.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/executor/observed_executor.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Some rows of a tensor that are multiplied as one matrix. All but the last dimension count as
// rows.
struct MatrixPart {
  const HostTensor* tensor = nullptr;
  uint64_t first_row = 0;
  uint32_t rows = 0, columns = 0;
};

// Matrices with the same inputs.
struct InputGroup {
  std::vector<MatrixPart> parts;
  std::vector<float> first;  // the inputs by which its members were found
  std::vector<float> rows;   // the inputs of the last pass, [rows, columns]
  uint32_t calls = 0;        // products with the first matrix in the pass that found it
  uint32_t missing = 0;      // of these, in the pass that collects
};

// Observes an ObservedExecutor that a model is loaded on.
class ProductWatch final : public ProductObserver {
 public:
  // Declares whose weights were loaded. Borrows them.
  void SetWeights(const Weights& weights);
  const Weights& weights() const { return *weights_; }

  // The trunk's tensors that are to be encoded next.
  void SetPending(std::set<const HostTensor*> tensors) { pending_ = std::move(tensors); }
  // The next pass finds the first pending tensor that is multiplied, all its matrices, and the
  // pending matrices with the same inputs as one of them: none of these depends on another pending
  // one.
  void FindGroups();
  // The next pass puts the inputs of each group's matrices into its rows, and leaves out what comes
  // after them.
  void CollectRows();
  void Stop() {
    mode_ = Mode::kOff;
    skips_ = false;
  }
  std::vector<InputGroup>& groups() { return groups_; }

  // Has an encoded tensor, whose bytes `executor` may borrow until Forget.
  Status Put(const HostTensor& tensor, const quant::Format* format,
             std::span<const std::byte> bytes, Executor& executor);
  void Forget() { encoded_.clear(); }
  // Whether passes run with encoded tensors.
  void UseEncoded(bool use) { use_ = use; }

  // Where a loaded matrix is; no tensor for one that is not in the trunk.
  MatrixPart Find(const Matrix& weights) const;

  bool Wants(const Matrix& weights) const override;
  void Multiplied(const Matrix& weights, std::span<const float> inputs) override;
  Matrix InsteadOf(const Matrix& weights) const override;
  bool Skips() const override { return skips_; }

 private:
  void CollectFrom(const MatrixPart& part, std::span<const float> inputs);

  enum class Mode : uint8_t { kOff, kFind, kCollect };
  struct Encoded {
    BufferPtr buffer;
    const quant::Format* format = nullptr;
  };

  const Weights* weights_ = nullptr;
  std::map<const std::byte*, const HostTensor*> tensors_;
  std::set<const HostTensor*> pending_;
  Mode mode_ = Mode::kOff;
  std::vector<InputGroup> groups_;
  std::map<const HostTensor*, Encoded> encoded_;
  bool use_ = false, skips_ = false;
};

}  // namespace moepack::runtime
