// Sums the squares of the inputs of every weight matrix, as llama-imatrix does: the basis of an
// importance matrix.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/recipe/imatrix.h"
#include "runtime-shim/executor/observed_executor.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// Observes an ObservedExecutor that a model is loaded on. For every matrix of a layer and every
// expert, it keeps how many rows it was multiplied with and the sum of squares of every column, in
// doubles and in token order, so that the sums are the same however tokens are divided into
// batches. For matrices that are multiplied in parts, such as fused queries, keys and values, the
// first part counts, because all have the same inputs; where they have inputs of their own, all
// count, as rows of one matrix. The embedding and the output have no
// entries, as in llama-imatrix without --process-output.
class SecondMoments final : public ProductObserver {
 public:
  // Declares whose weights were loaded, before the first product. Borrows them.
  void SetWeights(const Weights& weights);
  // From now on products are counted, or not.
  void Count(bool counting) { counting_ = counting; }
  // From now on products are counted as those of this stream, which is 0 at first.
  void CountStream(size_t stream) {
    stream_ = stream;
    counting_ = true;
  }

  bool Wants(const Matrix& weights) const override;
  void Multiplied(const Matrix& weights, std::span<const float> inputs) override;

  // The entries of an importance matrix, by tensor. Experts that no token chose have zeros. Those
  // of several streams are added up in F32 in their order (AddImatrixEntries), so that streams that
  // ran on different machines have the same sums. kCorrupt, with layer, tensor and expert, for a
  // sum that is not a finite F32; kInvalidArgument if nothing was multiplied.
  Result<ImatrixEntries> Entries() const;
  // Those of one stream; empty if it had no products.
  Result<ImatrixEntries> EntriesOf(size_t stream) const;

 private:
  struct Moments {
    std::vector<double> sums;      // a row for each matrix
    std::vector<uint64_t> counts;  // one, or one for each expert
  };
  // A loaded tensor: consecutive matrices of `matrix_bytes`.
  struct Place {
    std::string name;
    uint64_t matrix_bytes = 0;
    size_t matrices = 0;             // in the model: all experts, wherever they are
    const ExpertIds* ids = nullptr;  // of its matrices; null if they are not experts
    bool grouped = false;            // parts of the one matrix have inputs of their own
  };

  const Place* Find(const Matrix& weights) const;

  bool counting_ = true;
  size_t stream_ = 0;
  std::map<const std::byte*, Place> places_;
  std::vector<std::map<std::string, Moments, std::less<>>> moments_;  // by stream
};

}  // namespace moepack::runtime
