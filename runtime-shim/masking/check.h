// Checks that the bundles of a distribution are the model: every node must give the logits of the
// whole model with its routers masked to what the node holds. After a refit this does not hold;
// every node must then give the logits of the same node assembled.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/progress.h"
#include "libshard/base/result.h"
#include "runtime-shim/masking/compare.h"
#include "runtime-shim/model/weights.h"
#include "runtime-shim/session/node.h"

namespace moepack::runtime {

// The result for one node, or for the same node assembled, compared with the masked model.
struct CheckedNode {
  enum class Kind : uint8_t {
    kBundles,    // trunk, group and overlay loaded from the distribution
    kAssembled,  // AssembleNode's directory: routers cut, experts renumbered
  };
  uint32_t group = 0;
  Kind kind = Kind::kBundles;
  bool overlay = false;
  std::string skipped = {};  // why it was not run; "" if it ran
  SideBySide::Findings findings = {};
  // For a node that failed, where the routers of the two first differ, if they do.
  std::optional<RoutingDifference> where = {};
  uint64_t eligible = 0, used = 0;  // (layer, expert) pairs that could take part, and that did

  bool passed() const { return skipped.empty() && !findings.failure; }
  bool failed() const { return skipped.empty() && findings.failure.has_value(); }
};

// With `group`, only that one is checked; with an overlay, nodes run both with and without it.
struct CheckOptions : NodeOptions {
  std::vector<uint32_t> tokens;  // empty: CheckTokens
  // The model to compare with; "" for all parts of the distribution together.
  std::string against;
  std::optional<double> tolerance;  // SideBySide's; default: DefaultTolerance
  bool assembled = true;            // assemble each node below TMPDIR and compare it, too
  std::function<void(const CheckedNode&)> checked;  // called after each node; may be empty
  // Counts the tokens that have run on both sides of all nodes; may be empty.
  OnProgress progress;
};

struct CheckReport {
  std::string executor;  // its description
  std::vector<uint32_t> tokens;
  double tolerance = 0;
  std::vector<CheckedNode> nodes;
  std::vector<std::string> notes;
  // Groups were refitted, so assembled nodes were compared with the loaded bundles instead of the
  // masked model.
  bool of_refit = false;
  uint64_t failures() const;
};

// Returns 0 (the same bits) for the CPU, which adds in one order, and 1e-4 for other executors.
double DefaultTolerance(const std::string& executor);
// Returns 32 ids that are spread over the vocabulary, the same in every run.
std::vector<uint32_t> CheckTokens(uint32_t vocabulary);

// Checks all nodes. The first half of the tokens runs in batches and the rest one by one, so that
// both ways of running are compared. A node that differs is a result, not an error.
// kInvalidArgument if the source is not a distribution or its plan lacks a group, kNotFound if a
// group's files are missing, kMismatch if no node can run, kUnsupported if `against` has other
// element types, kInterrupted; otherwise the errors of loading and running.
Result<CheckReport> CheckDistribution(const std::string& distribution, const CheckOptions& options);

}  // namespace moepack::runtime
