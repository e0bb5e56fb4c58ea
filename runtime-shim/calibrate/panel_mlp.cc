#include "runtime-shim/calibrate/panel_mlp.h"

#include <algorithm>

#include "libshard/base/parallel.h"
#include "runtime-shim/cpu/panels.h"
#include "runtime-shim/cpu/row_kernels.h"
#include "runtime-shim/cpu/turn_rows.h"

namespace moepack::runtime {
namespace {

// Columns [columns, kPanelColumns] of the tokens, times their factors; those of absent ones are 0.
void MakePanel(std::span<const float> rows, size_t columns, std::span<const float> factors,
               std::vector<float>& panel) {
  const size_t count = rows.size() / columns;
  panel.assign(columns * kPanelColumns, 0);
  TurnRows(FloatMatrix::Of(rows, columns), panel.data(), kPanelColumns);
  if (factors.empty()) return;
  for (size_t c = 0; c < columns; ++c) {
    for (size_t t = 0; t < count; ++t) panel[c * kPanelColumns + t] *= factors[t];
  }
}

void TurnBack(const std::vector<float>& panel, size_t columns, std::span<float> rows) {
  TurnRows({panel.data(), columns, rows.size() / columns, kPanelColumns}, rows.data(), columns);
}

void Multiply(const HostLinear& linear, const std::vector<float>& panel, std::vector<float>& out) {
  out.assign(linear.rows * kPanelColumns, 0);
  for (size_t row = 0; row < linear.bias.size(); ++row)
    std::fill_n(out.begin() + static_cast<ptrdiff_t>(row * kPanelColumns), kPanelColumns,
                linear.bias[row]);
  AddPanelProducts({linear.weights.data(), linear.columns, linear.rows, linear.columns},
                   {panel.data()}, {out.data()});
}

}  // namespace

void HostActivations(const HostMlp& mlp, const ExpertForm& form, std::span<const float> x,
                     std::span<const float> gates, size_t jobs, std::vector<float>& out) {
  const size_t columns = mlp.first().columns, inner = mlp.first().rows;
  const size_t tokens = x.size() / columns;
  out.resize(tokens * inner);
  ForPieces(tokens, kPanelColumns, jobs, [&](size_t first, size_t end) {
    std::vector<float> panel, gate, up;
    MakePanel(x.subspan(first * columns, (end - first) * columns), columns,
              form.weigh_inputs ? gates.subspan(first, end - first) : std::span<const float>(),
              panel);
    Multiply(mlp.first(), panel, gate);
    if (mlp.gate.rows > 0) Multiply(mlp.up, panel, up);
    ActivateFast(form.activation, gate, mlp.gate.rows > 0 ? up : gate);
    TurnBack(gate, inner, std::span(out).subspan(first * inner, (end - first) * inner));
  });
}

void HostOutputs(const HostMlp& mlp, std::span<const float> a, size_t jobs,
                 std::vector<float>& out) {
  const size_t inner = mlp.down.columns, width = mlp.down.rows, tokens = a.size() / inner;
  out.resize(tokens * width);
  ForPieces(tokens, kPanelColumns, jobs, [&](size_t first, size_t end) {
    std::vector<float> panel, product;
    MakePanel(a.subspan(first * inner, (end - first) * inner), inner, {}, panel);
    Multiply(mlp.down, panel, product);
    TurnBack(product, width, std::span(out).subspan(first * width, (end - first) * width));
  });
}

}  // namespace moepack::runtime
