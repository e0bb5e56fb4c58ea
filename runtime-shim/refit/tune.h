// Tunes a node's experts and router together by gradient descent.
//
// A batch of tokens t with weights v_t has the loss L = sum of v_t |y_t - Y_t|^2, divided by the
// batch's mean of v_t Y_t^2 over all values, with
//   y = sum of w_e o_e,   o_e = W_e a_e + c_e,   a_e = act(G_e h, U_e h).
// With r = dL/dy, back through the sum, the down projection and the activation:
//   dL/dW_e = sum over t of w_e r a_e',   dL/dc_e = sum of w_e r,
//   dL/dG_e = sum of (w_e W_e'r * da_e/d(G_e h)) h', and the same for U_e,
//   dL/dw_e = r.o_e, which goes through the gates to the router (gradient/gradients.h).
// Adam moves each value by a rate that is a share of the root mean square of its array as it was at
// first, so that models with small weights and those with large ones are tuned alike.
#pragma once

#include <cstdint>

#include "libshard/base/result.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/refit_options.h"

namespace moepack::runtime {

struct TuneOptions {
  uint32_t updates = kUsualUpdates;
  double rate = 0.05;  // of an array's root mean square; falls linearly to 0
  // For so many updates the rate also rises, but for at most a twentieth of them. REQUIRES: less
  // than `interval`.
  uint32_t rise = 10;
  // Tokens of an update: on average this many for each expert, but at most this share of the text.
  uint32_t expert_tokens = 256;
  double share = 0.0625;
  // The error of at most this many held-out tokens is measured every `interval` updates. After
  // `patience` measurements without a new minimum the rate falls to 0 within `last` updates.
  uint32_t held_out = 4096, interval = 25, patience = 4, last = 15;
};

// The tokens of an update, at least 1, if a token chooses top_k of n experts.
uint64_t TokensOfUpdate(const TuneOptions& options, uint64_t n, uint64_t top_k, uint64_t tokens);

// Which share of the targets the first batch of a tuning missed, and the last one; and how many
// updates there were.
struct TuneLoss {
  double first = 0, last = 0;
  uint32_t updates = 0;
};

// Changes the experts that are not fixed and do not have too few tokens, with their biases, and the
// router's rows and the bias of its logits for all experts that are not fixed. The router stays
// where gates weigh the experts' inputs, and where another bias affects the choice: the last expert
// that is chosen may then have a large weight, so that a change of the choice, which the gradient
// does not see, changes the loss by much. REQUIRES: routes are those of the experts as they are.
// Does nothing if no token counts. Stops at a loss that is not finite, and earlier where the error
// on held-out text no longer falls; whether to keep the result is the caller's decision.
Result<TuneLoss> TuneExperts(Products& products, const TuneOptions& options, NodeLayer& node);

}  // namespace moepack::runtime
