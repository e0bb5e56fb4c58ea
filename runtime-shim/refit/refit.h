// Refits the experts that nodes keep, layer by layer, on calibration text, so that a node answers
// almost like the whole model. docs/refit.md explains the method.
//
// For each layer in order, the stream x_full of the whole model and that of every node are run
// through the layer. A node's target is what moves its stream to the whole model's, Y =
// x_full,after - x_mid, where x_mid is the node's stream after attention; so a layer also corrects
// what earlier ones got wrong. Then the node's stream continues with the refitted experts. Where a
// norm or a projection follows the sum of the experts, the target is the whole model's sum.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "libshard/plan/plan.h"
#include "libshard/refit/refit_store.h"
#include "runtime-shim/profile/second_moments.h"
#include "runtime-shim/refit/calibration.h"
#include "runtime-shim/refit/layer_refit.h"
#include "runtime-shim/refit/refit_options.h"
#include "runtime-shim/session/session.h"

namespace moepack::runtime {

struct RefitInput {
  const Model& model;  // with every expert of every layer
  const Plan& plan;    // of that model
  std::span<const TokenSession> sessions;
  std::optional<uint32_t> bos;
  // The moments of the executor that the model was loaded on, with the model's weights: they add
  // the trunk to the importance matrix, measured on the streams of all nodes. Null: it has only the
  // experts.
  SecondMoments* moments = nullptr;
  SessionWeights weights = {};
  // A part of a refit: only these groups, ascending, each with an importance matrix of its own, too
  // (RefitGroupImatrix). No value: all of them.
  std::optional<std::vector<uint32_t>> groups = {};
};

// Called as a refit progresses. Both may be empty.
struct RefitEvents {
  OnProgress progress;  // tokens times passes over them
  // After each group of a layer; `again` if the layer was already in the store.
  std::function<void(const LayerOutcome& outcome, bool again)> refitted;
};

// The text that a refit takes, after what RefitModel refuses has been refused: steps that do not
// exist, more experts per token than a group has, too little text, a directory for activations that
// is none, and models with chunk experts. Nothing is computed.
Result<Calibration> CheckRefit(const RefitInput& input, const RefitOptions& options);

// Refits the groups of the plan and adds every layer to the store, which is in `directory`; layers
// that it already has are not refitted again. At the end an importance matrix of the refitted nodes
// is written there, too (kRefitImatrix). Values do not depend on the number of threads or on which
// other groups are refitted, and an interrupted and resumed run gives the same ones. Errors:
//   kInvalidArgument  experts that are not loaded, too little text, a singular matrix
//   kCorrupt          activations that are not finite, with the layer
//   kIo               no room for activations on disk
//   kInterrupted
Status RefitModel(const RefitInput& input, const RefitOptions& options, const RefitEvents& events,
                  RefitStoreWriter& store, const std::filesystem::path& directory);

// One layer as RefitModel computes it.
struct RefittedLayer {
  std::vector<RefitOutcome> outcomes;  // by group
  std::vector<RefittedExperts> accepted;
};
// Computes a layer again on top of the store's earlier layers. kNotFound for one that the store
// does not have. REQUIRES: the groups of `input` are those of the store.
Result<RefittedLayer> RedoLayer(const RefitInput& input, const RefitOptions& options,
                                const RefitStore& store, uint32_t layer);

}  // namespace moepack::runtime
