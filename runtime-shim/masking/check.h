// Proves that the bundles of a distribution are the model: every node gives the logits of the whole
// model whose routers are masked to what the node holds.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "runtime-shim/devices/executors.h"
#include "runtime-shim/masking/compare.h"
#include "runtime-shim/masking/routing_trace.h"
#include "runtime-shim/model/weights.h"

namespace moepack::runtime {

// One node, or the same node assembled, beside the masked model.
struct CheckedNode {
  enum class Kind : uint8_t {
    kBundles,    // trunk, group and overlay loaded from the distribution
    kAssembled,  // AssembleNode's directory: routers cut, experts renumbered
  };
  uint32_t group = 0;
  Kind kind = Kind::kBundles;
  bool overlay = false;
  std::string skipped = {};  // why it was not run; "" when it was
  SideBySide::Findings findings = {};
  // Where the routers of the two first part, for nodes that failed, if they do.
  std::optional<RoutingDifference> where = {};
  uint64_t eligible = 0, used = 0;  // (layer, expert) pairs: what could and what did take part

  bool passed() const { return skipped.empty() && !findings.failure; }
  bool failed() const { return skipped.empty() && findings.failure.has_value(); }
};

struct CheckOptions {
  std::string executor = "cpu";
  ExecutorOptions device;
  // `groups` is set by the check. With the overlay nodes run with and without it.
  LoadOptions load;
  std::vector<uint32_t> groups;  // empty: all
  std::vector<uint32_t> tokens;  // empty: CheckTokens
  // The model to compare with; "": the distribution's own parts, all loaded at once.
  std::string against;
  std::optional<double> tolerance;  // SideBySide's; default: DefaultTolerance
  bool assembled = true;            // assemble each node below TMPDIR and compare it too
  std::function<void(const CheckedNode&)> checked;  // as they are done; may be empty
  // Tokens that have run, on both sides of all nodes; may be empty.
  std::function<void(uint64_t done, uint64_t total)> progress;
};

struct CheckReport {
  std::string executor;  // its description
  std::vector<uint32_t> tokens;
  double tolerance = 0;
  std::vector<CheckedNode> nodes;
  std::vector<std::string> notes;
  uint64_t failures() const;
};

// 0 (the same bits) on the CPU, 1e-4 elsewhere.
double DefaultTolerance(const std::string& executor);
// 32 ids spread over the vocabulary, the same in every run.
std::vector<uint32_t> CheckTokens(uint32_t vocabulary);

// The first half of the tokens runs in batches, the rest one by one, so that both ways of running
// are compared. A node that differs is a result, not an error. kInvalidArgument when the source is
// no distribution or a group is none of its plan, kNotFound when it lacks a group's files,
// kMismatch when no node can run; kUnsupported when `against` has other element types;
// kInterrupted; else the errors of loading and running.
Result<CheckReport> CheckDistribution(const std::string& distribution, const CheckOptions& options);

}  // namespace moepack::runtime
