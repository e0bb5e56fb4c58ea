// Fits a node's router to its experts.
//
// Given all experts' outputs o_e for a token, its error is
//   |Y - sum of w_e o_e|^2 = |Y|^2 - 2 w.c + w'Mw,   c_e = o_e.Y,   M_ef = o_e.o_f,
// so c and M, computed once, replace the outputs. The rows follow Adam (Kingma and Ba 2015) on the
// error's share of |Y|^2, in batches that a fixed generator draws from a larger sample:
//   dL/dw_e = -2 (c_e - (Mw)_e), through the gates to dL/dz (gradients.h), dR = dz'h.
// A bias of the logits is fitted with the rows. A bias that only affects the choice has no
// gradient: it is searched one expert at a time, up and down in shrinking steps, keeping what
// lowers the error.
#pragma once

#include <cstdint>

#include "libshard/base/result.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {

struct RouterOptions {
  uint32_t steps = 100;
  double rate = 3e-3;            // decreases linearly to 0
  uint32_t batch = 4096;         // tokens of a step; all of a smaller sample
  uint64_t tokens = 24576;       // at most this many take part
  uint64_t memory = UINT64_MAX;  // bytes for c and M; fewer tokens take part if there is less
};

// Leaves new rows and biases of the experts that are not fixed; RouteNode makes their routes. It
// does nothing if no token counts, or if the gates weigh the experts' inputs: outputs are then not
// a linear function of the gates.
Status FitRouter(Products& products, const RouterOptions& options, NodeLayer& node);

// Only the bias that affects the choice, as in FitRouter. It does nothing for a router without one.
Status FitSelectionBias(Products& products, const RouterOptions& options, NodeLayer& node);

}  // namespace moepack::runtime
