// An expert on the host, in F32: its products run over panels of tokens, so that each weight that
// is read serves all tokens of the panel.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "runtime-shim/refit/products.h"

namespace moepack::runtime {

// A matrix [rows, columns] and a bias of its rows, which may be empty.
struct HostLinear {
  std::vector<float> weights, bias;
  size_t rows = 0, columns = 0;
};

// Without a gate, the activation applies to `up` alone.
struct HostMlp {
  HostLinear gate, up, down;
  const HostLinear& first() const { return gate.rows > 0 ? gate : up; }
};

// act(gate(x), up(x)) of rows x [tokens, H]: [tokens, F]. With form.weigh_inputs the gates multiply
// x, and are not used otherwise. `jobs`: threads; the values do not depend on them.
void HostActivations(const HostMlp& mlp, const ExpertForm& form, std::span<const float> x,
                     std::span<const float> gates, size_t jobs, std::vector<float>& out);
// down(a) of rows a [tokens, F], with its bias: [tokens, H].
void HostOutputs(const HostMlp& mlp, std::span<const float> a, size_t jobs,
                 std::vector<float>& out);

}  // namespace moepack::runtime
