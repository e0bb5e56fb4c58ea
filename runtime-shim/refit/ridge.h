// Ridge regression of down projections: the first and last step of a refit.
//
// phi_e(t) = g_e(t) a_e(h_t) is the factor of the down projection W_e of an expert that token t
// picked (ScaledActivations). With outputs y and targets Y the new projections are those that
// minimise
//
//   sum over t of |Y_t - sum over e of phi_e(t) W_e|^2 + r |W - W0|^2,   r = lambda * d,
//
// where W0 is the projections so far, and d the mean of the diagonal of phi'phi. The outputs of
// experts that do not change, and the biases of down projections, are part of y and stay: only the
// change D = W - W0 is solved for, (phi'phi + r I) D = phi'(Y - y).
#pragma once

#include <cstdint>
#include <span>

#include "libshard/base/result.h"
#include "runtime-shim/refit/node_layer.h"
#include "runtime-shim/refit/refit_options.h"

namespace moepack::runtime {

// The memory for matrices has to hold the normal matrix of all experts together and their
// activations. With less, each expert has one of its own, and the experts take turns
// (Gauss-Seidel), `sweeps` times. Then the factors of these matrices take what the projections as
// they were leave of it. REQUIRES: routes and outputs match the experts. Leaves new projections
// and, if the experts took turns, their outputs; otherwise RunDown computes them. kInvalidArgument
// for a matrix that is not positive definite, which requires a lambda of 0 or values that are not
// finite.
Status RidgeDown(Products& products, const RefitOptions& options, NodeLayer& node);
// The same with other projections W0 than those so far: `before` has them for all experts, [n, H,
// F]. From projections that are near the minimum, one sweep is enough.
Status RidgeFrom(Products& products, const RefitOptions& options, std::span<const float> before,
                 uint32_t sweeps, NodeLayer& node);

// Says that a normal matrix of the node is not positive definite.
Error NotDefinite(const NodeLayer& node);

// Whether the experts take turns.
bool RidgeTakesTurns(const RefitOptions& options, const NodeLayer& node);
bool RidgeIsJoint(uint64_t experts, uint64_t width, uint64_t chosen_tokens, uint64_t memory);
// How many factors it keeps where the experts take turns; the others are made again at each turn.
uint64_t FactorsHeld(uint64_t experts, uint64_t width, uint64_t hidden, uint64_t memory);

}  // namespace moepack::runtime
