// The products of a refit or a calibration where executor and program share memory, at the speed of
// packed products (cpu/packed_products.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "runtime-shim/cpu/packed_products.h"
#include "runtime-shim/executor/executor.h"

namespace moepack::runtime {

// The functions are those of Products with the same names. Their matrices are of a HostExecutor.
class HostProducts {
 public:
  explicit HostProducts(size_t jobs) : jobs_(jobs) {}

  void Apply(const Linear& linear, std::span<const float> x, std::span<float> y);
  void MultiplyBy(const FloatMatrix& weights, std::span<const float> x, std::span<float> y);
  void Activations(const MlpWeights& expert, Activation activation, std::span<const float> x,
                   std::span<float> out);
  void Output(const MlpWeights& expert, Activation activation, std::span<const float> x,
              std::span<float> out);
  // a'b of all rows, in floats.
  void Product(const FloatMatrix& a, const FloatMatrix& b, std::span<float> out);
  // a'b of all rows, whose sums in floats are added to doubles; with `upper`, only those with
  // i <= j.
  void AddProduct(const FloatMatrix& a, const FloatMatrix& b, bool upper, const DoubleRows& out);

 private:
  void PackWeights(const Linear& linear, PackedMatrix& packed, std::vector<float>& bias);
  // `out` = act(gate(in), up(in)), with the packed weights.
  void Activate(Activation activation, const FloatMatrix& in, std::span<float> out);
  // The packed form of a matrix of weights, or of rows; and the left side, turned.
  PackedMatrix first_, up_, other_;
  std::vector<float> first_bias_, up_bias_, other_bias_, decoded_, up_rows_, inner_, turned_;
  bool gated_ = false;
  size_t jobs_;
};

}  // namespace moepack::runtime
