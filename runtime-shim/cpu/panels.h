// Products with panels: matrices of a fixed, small number of columns, whose rows stay in registers.
// Moments, triangular systems, error feedback and the products of a refit consist of nothing else.
#pragma once

#include <cstddef>

namespace moepack::runtime {

inline constexpr size_t kPanelColumns = 32;

// `count` rows of `depth` factors; row j starts at first + j * stride.
template <class Float>
struct PanelFactorsOf {
  const Float* first = nullptr;
  size_t stride = 0;
  size_t count = 0, depth = 0;
};
using PanelFactors = PanelFactorsOf<float>;
using DoubleFactors = PanelFactorsOf<double>;

// Rows of kPanelColumns numbers; row k starts at first + k * stride.
template <class Float>
struct PanelOf {
  Float* first = nullptr;
  size_t stride = kPanelColumns;
  Float* row(size_t k) const { return first + k * stride; }
};
using Panel = PanelOf<float>;
using ConstPanel = PanelOf<const float>;
using DoublePanel = PanelOf<double>;
using ConstDoublePanel = PanelOf<const double>;

// out[j][c] += sum over k of factors[j][k] * panel[k][c], added in ascending k, whatever rows are
// beside row j. Instruction sets with fused multiplications round once for each product, the others
// twice.
void AddPanelProducts(const PanelFactors& factors, const ConstPanel& panel, const Panel& out);
void AddPanelProductsRef(const PanelFactors& factors, const ConstPanel& panel, const Panel& out);
void AddDoubleProducts(const DoubleFactors& factors, const ConstDoublePanel& panel,
                       const DoublePanel& out);
void AddDoubleProductsRef(const DoubleFactors& factors, const ConstDoublePanel& panel,
                          const DoublePanel& out);

}  // namespace moepack::runtime
