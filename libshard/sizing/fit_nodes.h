// How many experts of every layer fit on each of the machines that a user has, and a plan for nodes
// of such sizes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/model.h"
#include "libshard/plan/plan.h"
#include "libshard/sizing/node_bytes.h"

namespace moepack {

// What a node needs besides its weights; the same on all nodes.
struct NodeExtras {
  uint64_t cache = 0;    // keys and values of all its sessions
  uint64_t buffers = 0;  // estimated, or what --reserve sets aside
};

// What a node needs, part by part, if it may pick from `eligible` experts of every layer.
struct NodeNeed {
  uint32_t eligible = 0;
  NodeBytes weights;
  NodeExtras extras;
  uint64_t total() const { return weights.total() + extras.cache + extras.buffers; }
};

struct NodeFit {
  uint64_t budget = 0;  // bytes of the machine
  NodeNeed need;
};

// For each budget, the most experts per layer that fit it. All layers of a node have the same
// count, as stock runtimes require; nodes may differ. `least` is what every node holds in any case:
// the overlay's or pinned experts of the layer that has the most. kInvalidArgument for a budget
// that is too small for top-k (or `least`) experts; the message adds up the parts and says how much
// is missing. Otherwise the errors of NodeSizer::Node.
Result<std::vector<NodeFit>> FitNodes(const MoeModel& model, const NodeSizer& sizer,
                                      const std::vector<uint64_t>& budgets,
                                      const NodeExtras& extras, uint32_t least);

// Measures the nodes of a finished plan. With budgets (one per group, or none), a node that does
// not fit is kInvalidArgument, as above.
Result<std::vector<NodeFit>> MeasureNodes(const NodeSizer& sizer, const Plan& plan,
                                          const std::vector<uint64_t>& budgets,
                                          const NodeExtras& extras);

// "node 2 (16 GB): trunk 9.1 GB + cache 2 GB + buffers 300 MB + 8 experts per layer 6.2 GB = 17.6
// GB: 1.6 GB too much". `why` follows the number of experts: " (top-k)", or "".
std::string TooMuch(size_t node, const NodeFit& fit, const std::string& why);

// A plan for nodes of different sizes.

// Returns a plan of one group with the overlay of `options`: what every node of any plan holds.
Result<Plan> PlanOverlayAlone(const MoeModel& model, PlanOptions options);

// Returns the plan of options.partition in which node g may pick from eligible[g] experts of every
// layer, the overlay's included. A contiguous partition gives larger nodes longer runs, and nodes
// whose runs hold experts of the overlay too (its scheme is then contiguous-by-node), and gives
// every node the experts that follow its run. Other
// partitions divide by number as usual, and the sizes of their nodes must be measured.
// kInvalidArgument if all nodes together have no room for every expert, because without statistics
// nobody knows which to leave out, and for options that are not uniform where that changes nothing,
// because every node is filled to what it has room for; otherwise errors of MakePlan. REQUIRES:
// every eligible count is at least that of the overlay.
Result<Plan> PlanForNodes(const MoeModel& model, const PlanOptions& options,
                          const std::vector<uint32_t>& eligible);

}  // namespace moepack
