// The inputs of nodes' experts after a refit: the part of an importance matrix that quantizing them
// needs (libshard/recipe/imatrix.h).
#pragma once

#include <map>
#include <span>
#include <string>

#include "libshard/base/result.h"
#include "libshard/recipe/imatrix.h"
#include "runtime-shim/refit/node_layer.h"

namespace moepack::runtime {

class RefitImportance {
 public:
  // Adds the tokens of a node to the experts that they chose, each with the weight of its error.
  // `sets` names the tensors of the layer. If the group's experts became its own (`own`), it also
  // gets its own entries, for all experts that are not fixed. Counts are numbers of tokens, and
  // sums are the weighted means of squares times them. REQUIRES: the routes match the current
  // experts.
  Status Add(Products& products, std::span<const ExpertSet> sets, const NodeLayer& node, bool own);

  // The entries of all layers so far.
  const ImatrixEntries& entries() const { return entries_; }

 private:
  ImatrixEntries entries_;
};

}  // namespace moepack::runtime
