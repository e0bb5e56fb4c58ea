// Sums the squares of what goes into every weight matrix, as llama-imatrix does: what an importance
// matrix is made of.
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

// Observes an ObservedExecutor that a model is loaded on. Of every matrix of a layer it keeps, for
// each expert, how many rows it was multiplied with and the sum of squares of every column, in
// doubles and in the order of the tokens, so that the sums are the same however tokens are divided
// into batches. Of matrices that are multiplied in parts, such as fused queries, keys and values,
// the first part counts, because all have the same inputs. The embedding and the output have no
// entries, as in llama-imatrix without --process-output.
class SecondMoments final : public ProductObserver {
 public:
  // Says whose weights were loaded, before the first product. Borrows them.
  void SetWeights(const Weights& weights);
  // From now on products count, or do not.
  void Count(bool counting) { counting_ = counting; }

  void Loaded(const Buffer& buffer, std::span<const std::byte> weights) override;
  bool Wants(const Matrix& weights) const override;
  void Multiplied(const Matrix& weights, std::span<const float> inputs) override;

  // The entries of an importance matrix, by tensor. Experts that no token chose have zeros.
  // kCorrupt for a sum that is no finite F32, with layer, tensor and expert; kInvalidArgument when
  // nothing was multiplied.
  Result<std::map<std::string, ImatrixEntry, std::less<>>> Entries() const;

 private:
  struct Moments {
    std::vector<double> sums;      // a row for each matrix
    std::vector<uint64_t> counts;  // one, or one for each expert
  };
  // A loaded tensor: matrices of `matrix_bytes` after each other.
  struct Place {
    std::string name;
    uint64_t matrix_bytes = 0;
    size_t matrices = 0;             // of the model: all experts, wherever they lie
    const ExpertIds* ids = nullptr;  // of its matrices; null where they are no experts
  };

  const Place* Find(const Matrix& weights) const;

  bool counting_ = true;
  std::map<const Buffer*, const std::byte*> loaded_;
  std::map<const std::byte*, Place> places_;
  std::map<std::string, Moments, std::less<>> moments_;
};

}  // namespace moepack::runtime
