// Products with panels: matrices of a fixed, small number of columns, whose rows stay in registers.
// Moments, triangular systems and error feedback consist of nothing else.
#pragma once

#include <cstddef>

namespace moepack::runtime {

inline constexpr size_t kPanelColumns = 32;

// `count` rows of `depth` factors; row j starts at first + j * stride.
struct PanelFactors {
  const float* first = nullptr;
  size_t stride = 0;
  size_t count = 0, depth = 0;
};

// Rows of kPanelColumns floats; row k starts at first + k * stride.
template <class Float>
struct PanelOf {
  Float* first = nullptr;
  size_t stride = kPanelColumns;
  Float* row(size_t k) const { return first + k * stride; }
};
using Panel = PanelOf<float>;
using ConstPanel = PanelOf<const float>;

// out[j][c] += sum over k of factors[j][k] * panel[k][c], added in ascending k. Instruction sets
// with fused multiplications round once for each product, the others twice.
void AddPanelProducts(const PanelFactors& factors, const ConstPanel& panel, const Panel& out);
void AddPanelProductsRef(const PanelFactors& factors, const ConstPanel& panel, const Panel& out);

}  // namespace moepack::runtime
