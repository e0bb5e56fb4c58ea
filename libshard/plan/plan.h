// A plan says which experts every group of nodes holds, which are replicated, and which are on no
// node. It is plain data.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/json.h"
#include "libshard/model/model.h"
#include "libshard/plan/expectation.h"
#include "libshard/plan/placement_table.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {

// The types that a plan pins because they were chosen to fit in a given number of bytes. Writers
// take them from plan.json, so that nobody has to repeat the choice.

struct TypePlan {
  // "REGEX=TYPE"; the first match wins. Tensors without a rule keep the source's type.
  std::vector<std::string> tensor_types;
  uint64_t budget = 0, bytes = 0;  // of the largest node's tensors: the budget, and what is used
  double damage = 0, bound = 0;    // estimated damage, and a lower bound for any choice
  bool operator==(const TypePlan&) const = default;
};

// "types" of plan.json:
//
//   {"budget": 6000000, "bytes": 5998208, "damage": 0.031, "damage_bound": 0.031,
//    "tensor_types": ["^blk\\.(0|1)\\.attn_k\\.weight$=q5_K", ...]}
Json TypePlanToJson(const TypePlan& types);
// kCorrupt for members that are missing, have the wrong kind or contradict each other, and for more
// than kMaxTypeRules rules. Whoever applies the rules checks whether they make sense.
Result<TypePlan> TypePlanFromJson(const std::string& where, const Json& value);

// Pipeline stages of a plan.

// The layers that one of several machines of a node runs, both ends included.
struct StageRange {
  uint32_t first_layer = 0, last_layer = 0;
  bool operator==(const StageRange&) const = default;
};

struct GroupPlan {
  LayerExperts owned;  // held by this group alone (and by an overlay, if it replicates them)
  // What it holds in addition, so that all groups hold equally many whatever the overlay is, or
  // because its sessions use it; another group owns it.
  LayerExperts fill;
};

// Returns owned ∪ fill, the experts that the group's bundle stores.
LayerExperts HeldBy(const GroupPlan& group);

// A version of the overlay: what every node holds in addition to its group.
struct OverlayPlan {
  std::string version;  // 1 to 64 of [A-Za-z0-9._-], the first not a dot; names its directory
  std::string parent;   // the version that it was made from; "": none
  LayerExperts experts_by_layer;  // on every node
  // By group, the experts that its nodes take from the overlay's bundle in addition, so that every
  // eligible count is equal. Empty if no group needs any.
  std::vector<LayerExperts> fill;
  bool operator==(const OverlayPlan&) const = default;
};

// Whether text is a valid version: 1 to 64 characters of [A-Za-z0-9._-], the first not a dot.
bool IsLabel(std::string_view text);

// What a group takes from the overlay's bundle in addition to the overlay's experts.
const LayerExperts& FillOf(const OverlayPlan& overlay, size_t group);
// Returns experts ∪ the fill of all groups, the experts that the overlay's bundle stores.
LayerExperts HeldBy(const OverlayPlan& overlay);

struct Plan {
  std::string scheme;                  // the name of a Partition, or the file's own word
  LayerCounts layers;                  // the MoE layers of the model and their expert counts
  std::map<uint32_t, uint32_t> top_k;  // per layer; 0: unknown
  std::vector<GroupPlan> groups;
  // In the order in which they were made. The last one is current; a node has one of them.
  std::vector<OverlayPlan> overlays;
  LayerExperts remainder;  // owned by no group
  // With every overlay, |eligible(g, l)| is the same for all g and l.
  bool uniform = false;
  // What sessions will find on their node; for plans that were made with statistics.
  std::optional<PlanExpectation> expectation;
  std::optional<PlacementTable> placement;       // which group a session should go to
  std::vector<StageRange> stages = {};           // in order; none: one machine runs all layers
  std::optional<TypePlan> types = std::nullopt;  // that bundles get

  // The overlay that nodes get unless they ask for another version; null without overlays.
  const OverlayPlan* current_overlay() const;
  // The overlay of this version; null if there is none.
  const OverlayPlan* FindOverlay(std::string_view version) const;
};

// Drops all layers but these.
void KeepLayers(const LayerCounts& layers, OverlayPlan& overlay);

// Whether every group holds all experts of the layer.
bool IsWhole(const Plan& plan, uint32_t layer);

// The experts of the remainder that no overlay has either; only layers with any.
LayerExperts OnNoNode(const Plan& plan);

// Returns eligible(g, l) in ascending order, the experts that the router of layer l may pick on
// node g: what the group holds, the overlay's experts, and the overlay's fill for the group.
ExpertIds Eligible(const Plan& plan, const OverlayPlan* overlay, size_t group, uint32_t layer);
// The same with the current overlay.
ExpertIds Eligible(const Plan& plan, size_t group, uint32_t layer);

struct PlanOptions {
  uint32_t groups = 0;  // 0 where the partition's file lists them
  // See ParsePartition in partition.h; without a value DefaultPartition decides.
  std::optional<std::string> partition = std::nullopt;
  std::string overlay_file = "";  // "" for none
  bool uniform = true;

  // What routers chose, and the files it came from (for messages and records).
  std::shared_ptr<const ExpertScores> scores = nullptr;
  std::vector<std::string> statistics_files = {};
  std::optional<ScoreBasis> score = std::nullopt;  // which score of the files
  // How many experts of a layer each node may pick from, the overlay's included.
  std::optional<uint32_t> eligible = std::nullopt;
  // Instead of `eligible`, for nodes that differ: rooms[group][i] is how many experts the group may
  // hold in the i-th layer in addition to the overlay's. Such a plan is not filled up.
  std::vector<std::vector<uint32_t>> rooms = {};
  bool pin_super = true;                        // Super Experts go to every node
  std::string pin_file = "";                    // additional pins; "" for none
  uint32_t held_out = 200;                      // per thousand sessions, kept for measuring
  std::optional<uint64_t> seed = std::nullopt;  // of random starts; 0 without a value
};

// Decides which group holds which expert. kInvalidArgument for more groups than experts, an id out
// of range, an expert in two groups, a group with fewer eligible experts than top-k, or an unknown
// top-k. kMismatch and kCorrupt for scores of another model or meaningless scores.
Result<Plan> MakePlan(const MoeModel& model, const PlanOptions& options);

// Warns about what a user should know before terabytes are written: small groups, a remainder,
// fill, routing groups that are cut. `made_from` are the options from which MakePlan made the plan;
// null for a plan from a file or for machines, which other options cannot change.
std::vector<std::string> PlanWarnings(const MoeModel& model, const Plan& plan,
                                      const PlanOptions* made_from);

// Checks that a plan read from a file obeys the rules that MakePlan guarantees. kCorrupt names the
// broken rule.
Status CheckPlan(const std::string& where, const Plan& plan);

// Writes "partition" and "overlays" as in plan.json and distribution.json.
Json PartitionToJson(const Plan& plan);
Json OverlaysToJson(const Plan& plan);
// "stages"; an empty array if one machine runs all layers.
Json StagesToJson(const Plan& plan);
Json OverlayToJson(const OverlayPlan& overlay, const LayerCounts& layers);
// Returns the minor version of the format that this requires: 1 for several overlays, or a parent
// or fill of an overlay; otherwise 0.
unsigned FormatMinorOf(const Plan& plan);
// Reads both back; `layers` and `top_k` come from the model.
Result<Plan> PlanFromJson(const std::string& where, const Json& document, const LayerCounts& layers,
                          const std::map<uint32_t, uint32_t>& top_k);
// Does the same without CheckPlan, but ids are still checked to be in range. A verifier needs this,
// because it names every broken rule, not only the first.
Result<Plan> UncheckedPlanFromJson(const std::string& where, const Json& document,
                                   const LayerCounts& layers,
                                   const std::map<uint32_t, uint32_t>& top_k);

// Write and read plan.json: format, model version and family, partition, overlays. Reading refuses
// a plan made for another model.
Json PlanToJson(const MoeModel& model, const Plan& plan);
// Returns the text of plan.json after reading it back. kUnsupported, with the reader's reason, if
// ReadPlanFile would refuse it or read a different plan.
Result<std::string> PlanText(const MoeModel& model, const Plan& plan);
Result<Plan> ReadPlanFile(const std::string& path, const MoeModel& model);

LayerCounts LayerCountsOf(const MoeModel& model);
std::map<uint32_t, uint32_t> TopKOf(const MoeModel& model);

// Reads plan files without the model.

inline constexpr const char* kPlanFormat = "moepack-plan";

// Reads plan.json as ReadPlanFile does, but does not compare the model that it was made for.
// `layers` and `top_k` come from statistics or a distribution; kCorrupt if the plan names other
// layers. The document may be hostile.
Result<Plan> PlanFileFromJson(const std::string& path, const Json& document,
                              const LayerCounts& layers, const std::map<uint32_t, uint32_t>& top_k);

}  // namespace moepack
