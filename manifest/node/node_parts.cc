#include "manifest/node/node_parts.h"

#include <algorithm>
#include <set>
#include <tuple>

#include "libshard/base/text/text.h"
#include "libshard/format/safetensors.h"
#include "libshard/model/family_match.h"
#include "libshard/model/layer_experts.h"
#include "manifest/node/node_files.h"

namespace moepack::manifest {
namespace {

constexpr const char* kTrunkFile = "model-00001-of-00002.safetensors";
constexpr const char* kExpertsFile = "model-00002-of-00002.safetensors";

class NodeCutter {
 public:
  NodeCutter(const SourceTreePtr& distribution, const Manifest& manifest, FamilyMatcher& matcher,
             uint32_t group)
      : tree_(distribution),
        distribution_(distribution->name()),
        manifest_(manifest),
        matcher_(matcher),
        group_(group) {}

  Result<NodeParts> Cut() {
    SHARD_TRY(out_.expert_count, EligibleCount(distribution_, manifest_.plan, group_));
    SHARD_TRY(NodeFiles files, OpenNodeFiles(tree_, manifest_, group_));
    trunk_tensors_ = std::move(files.trunk);
    expert_tensors_ = std::move(files.experts);
    out_.sources = std::move(files.sources);
    trunk_.path = kTrunkFile;
    experts_.path = kExpertsFile;
    experts_.role = Role::kGroup;
    for (const PartTensor& tensor : trunk_tensors_) SHARD_CHECK(CheckRouter(tensor));
    for (const PartTensor& tensor : trunk_tensors_) SHARD_CHECK(AddTrunkTensor(tensor));
    SHARD_CHECK(AddExperts());
    for (OutputFile* file : {&trunk_, &experts_}) {
      LayOutSafetensors(*file, {{"format", "pt"}});
      out_.files.push_back(std::move(*file));
    }
    return std::move(out_);
  }

 private:
  ExpertIds EligibleIn(uint32_t layer) const { return Eligible(manifest_.plan, group_, layer); }

  OutputTensor Whole(const PartTensor& tensor, const std::string& name) {
    OutputTensor out;
    out.entry = tensor.entry;
    out.entry.name = name;
    out.sources = {{tensor.entry.file, tensor.entry.offset, tensor.entry.bytes}};
    out.SetSourceName(tensor.entry.name);
    out_.digests[name] = tensor.record->xxh3;
    return out;
  }

  // Packed codes and block scales of a router have no row per expert.
  Status CheckRouter(const PartTensor& tensor) {
    const TensorClass found = matcher_.Classify(tensor.entry.name);
    const TensorRule* const rule = found.rule;
    if (rule == nullptr || rule->part != Part::kRouter || rule->role != "router") return Ok();
    const std::string_view leaf = LeafOf(*rule, found.leaf);
    if (rule->expert_axis || IsOneForAll(tensor) || !AffectsNumbers(leaf)) return Ok();
    return Error{Code::kUnsupported,
                 Cat(distribution_, ": tensor ", Quoted(tensor.entry.name),
                     ": expected a router with a row for each expert, found one that is packed (",
                     leaf, ")"),
                 "a distribution with GGUF bundles has routers that can be cut"};
  }

  // A scale that all rows share.
  static bool IsOneForAll(const PartTensor& tensor) { return tensor.entry.Elements() == 1; }

  Status CheckNoChunks(const PartTensor& tensor, const TensorClass& found) const {
    if (!IsOfChunks(found.rule) || !found.layer) return Ok();
    const auto layer = manifest_.plan.layers.find(*found.layer);
    if (layer == manifest_.plan.layers.end() || EligibleIn(layer->first).size() == layer->second)
      return Ok();
    return Error{Code::kUnsupported,
                 Cat(distribution_, ": tensor ", Quoted(tensor.entry.name), ": ", kChunkProblem),
                 "run, check, profile and eval take the distribution itself"};
  }

  // Router rows are cut to the eligible experts; everything else is copied unchanged.
  Status AddTrunkTensor(const PartTensor& tensor) {
    const TensorClass found = matcher_.Classify(tensor.entry.name);
    const bool by_expert = found.rule != nullptr && found.rule->expert_axis;
    const LayerCounts& layers = manifest_.plan.layers;
    const auto layer = found.layer ? layers.find(*found.layer) : layers.end();
    const bool whole = layer != layers.end() && EligibleIn(layer->first).size() == layer->second;
    if (found.rule != nullptr && found.rule->holds_expert_ids && !whole) {
      return Error{Code::kUnsupported,
                   Cat(distribution_, ": tensor ", Quoted(tensor.entry.name),
                       ": expected a router that scores experts, found a table that gives tokens "
                       "fixed experts, some of which are not on this node")};
    }
    SHARD_CHECK(CheckNoChunks(tensor, found));
    if (!by_expert || layer == layers.end() || IsOneForAll(tensor)) {
      trunk_.tensors.push_back(Whole(tensor, tensor.entry.name));
      return Ok();
    }
    return AddRouterRows(tensor, *found.rule, layer->first, layer->second);
  }

  Status AddRouterRows(const PartTensor& tensor, const TensorRule& rule, uint32_t layer,
                       uint32_t expert_count) {
    const auto axis = AxisIn(tensor.entry.shape, rule.expert_axis);
    const uint64_t length = axis ? tensor.entry.shape[*axis] : 0;
    if (length == 0 || length % expert_count != 0) {
      return Error{Code::kMismatch, Cat(distribution_, ": tensor ", Quoted(tensor.entry.name),
                                        ": expected ", expert_count, " rows, found ", length)};
    }
    OutputTensor out;
    out.entry = tensor.entry;
    SHARD_TRY(out.sources, RouterSlices(tensor, *axis, layer, expert_count));
    out.entry.shape[*axis] = length / expert_count * out_.expert_count;
    out.entry.bytes = tensor.entry.bytes / expert_count * out_.expert_count;
    out_.cut.push_back(tensor);
    trunk_.tensors.push_back(std::move(out));
    return Ok();
  }

  // The rows of the eligible experts: those that a refit gave the group, and the trunk's for the
  // others.
  Result<std::vector<SourceRange>> RouterSlices(const PartTensor& tensor, uint32_t axis,
                                                uint32_t layer, uint32_t expert_count) {
    const auto own =
        std::find_if(expert_tensors_.begin(), expert_tensors_.end(),
                     [&](const PartTensor& part) { return part.entry.name == tensor.entry.name; });
    if (own == expert_tensors_.end())
      return SliceAxis(tensor.entry, axis, expert_count, EligibleIn(layer));
    const ExpertIds& held = own->record->expert_ids;
    const uint64_t slice = tensor.entry.bytes / expert_count;
    const auto before = tensor.entry.shape.begin() + axis;
    const bool stacked =
        std::all_of(tensor.entry.shape.begin(), before, [](uint64_t size) { return size == 1; });
    if (!stacked || own->entry.dtype != tensor.entry.dtype || held.empty() ||
        own->entry.bytes != slice * held.size()) {
      return Error{Code::kMismatch,
                   Cat(distribution_, ": tensor ", Quoted(tensor.entry.name),
                       ": expected rows of the trunk's router in the group's file, found others"),
                   kCorruptHint};
    }
    out_.cut.push_back(*own);
    std::vector<SourceRange> slices;
    for (const uint32_t id : EligibleIn(layer)) {
      const auto at = std::lower_bound(held.begin(), held.end(), id);
      const bool refitted = at != held.end() && *at == id;
      const PartTensor& from = refitted ? *own : tensor;
      const uint64_t index = refitted ? static_cast<uint64_t>(at - held.begin()) : id;
      slices.push_back({from.entry.file, from.entry.offset + index * slice, slice});
    }
    return slices;
  }

  // Adds experts in the order of the group's file, then those that only the overlay has. A packed
  // tensor goes where its first part would.
  Status AddExperts() {
    std::map<std::string, std::vector<const PartTensor*>> by_name;
    for (const PartTensor& tensor : expert_tensors_) by_name[tensor.entry.name].push_back(&tensor);
    for (const PartTensor& tensor : expert_tensors_) {
      const std::vector<const PartTensor*>& parts = by_name[tensor.entry.name];
      if (parts[0] != &tensor) continue;
      const TensorClass found = matcher_.Classify(tensor.entry.name);
      if (found.rule != nullptr && found.rule->part == Part::kRouter) continue;  // RouterSlices
      const Status added = found.rule != nullptr && found.expert ? AddExplicit(tensor, found)
                                                                 : AddPacked(parts, found);
      if (!added) return added;
    }
    return CheckComplete();
  }

  // What the files have of an expert: its weights (role, leaf, whether plain), and how many
  // tensors.
  struct HeldExpert {
    std::set<std::tuple<std::string_view, std::string_view, bool>> weights;
    size_t tensors = 0;
  };
  using HeldExperts = std::map<uint32_t, HeldExpert>;

  // Experts that are stored alike have the same number of tensors, and all have as many weights.
  bool AreComplete(const HeldExperts& experts) const {
    std::map<decltype(HeldExpert::weights), size_t> tensors_of;
    for (uint32_t id = 0; id < out_.expert_count; ++id) {
      const auto held = experts.find(id);
      if (held == experts.end()) return false;
      const auto& [weights, tensors] = held->second;
      if (weights.size() != experts.begin()->second.weights.size()) return false;
      if (tensors_of.emplace(weights, tensors).first->second != tensors) return false;
    }
    return true;
  }

  // Checks that every layer has experts, and that explicit ones are complete.
  Status CheckComplete() const {
    for (const auto& [layer, unused] : manifest_.plan.layers) {
      const auto explicit_layer = tensors_of_.find(layer);
      const bool complete = explicit_layer == tensors_of_.end()
                                ? packed_layers_.contains(layer)
                                : AreComplete(explicit_layer->second);
      if (complete) continue;
      return Error{Code::kMismatch,
                   Cat(distribution_, ": layer ", layer, ": expected all tensors of ",
                       Plural(out_.expert_count, "expert"), " in group and overlay, found fewer"),
                   kCorruptHint};
    }
    return Ok();
  }

  Status AddExplicit(const PartTensor& tensor, const TensorClass& found) {
    const ExpertIds eligible = EligibleIn(*found.layer);
    const uint32_t id = *found.expert;
    const auto at = std::lower_bound(eligible.begin(), eligible.end(), id);
    if (at == eligible.end() || *at != id) {
      return IsFillOfOthers(*found.layer, id) ? Ok() : NotEligible(tensor, id);
    }
    const auto local = static_cast<uint32_t>(at - eligible.begin());
    SHARD_TRY(const std::string name, RenumberExpert(matcher_, tensor.entry.name, local));
    HeldExpert& held = tensors_of_[*found.layer][local];
    if (AffectsNumbers(found.leaf)) ++held.tensors;  // others may be missing
    if (HoldsValues(found.leaf))
      held.weights.emplace(found.rule->role, found.leaf, IsPlainType(tensor.entry.dtype));
    experts_.tensors.push_back(Whole(tensor, name));
    return Ok();
  }

  Status AddPacked(const std::vector<const PartTensor*>& parts, const TensorClass& found) {
    const PartTensor& first = *parts[0];
    const bool one_for_all = first.record->expert_ids.empty() && first.entry.Elements() == 1;
    if (one_for_all) {
      experts_.tensors.push_back(Whole(first, first.entry.name));
      return Ok();
    }
    if (found.rule == nullptr || !found.layer || !found.rule->expert_axis) {
      return Error{Code::kMismatch, Cat(distribution_, ": tensor ", Quoted(first.entry.name),
                                        ": expected an expert tensor, found a name that no rule "
                                        "of the family reads as one")};
    }
    const auto axis = AxisIn(first.entry.shape, found.rule->expert_axis);
    if (axis != 0u) {
      return Error{Code::kUnsupported, Cat(distribution_, ": tensor ", Quoted(first.entry.name),
                                           ": expected experts along axis 0, found axis ",
                                           axis ? Cat(*axis) : Cat(*found.rule->expert_axis))};
    }
    const uint32_t layer = *found.layer;
    SHARD_TRY(OutputTensor out, MergeExperts(distribution_, parts, EligibleIn(layer)));
    packed_layers_.insert(layer);
    for (const PartTensor* part : parts) out_.cut.push_back(*part);
    experts_.tensors.push_back(std::move(out));
    return Ok();
  }

  // The overlay's files also hold the fill of other groups.
  bool IsFillOfOthers(uint32_t layer, uint32_t id) const {
    const OverlayPlan* overlay = manifest_.plan.current_overlay();
    return overlay != nullptr &&
           std::any_of(overlay->fill.begin(), overlay->fill.end(), [&](const LayerExperts& fill) {
             return moepack::Contains(moepack::IdsOf(fill, layer), id);
           });
  }

  Error NotEligible(const PartTensor& tensor, uint32_t id) const {
    return Error{Code::kMismatch,
                 Cat(distribution_, ": tensor ", Quoted(tensor.entry.name), ": expert ", id,
                     ": expected the experts that the plan gives this node, found others"),
                 kCorruptHint};
  }

  const SourceTreePtr& tree_;
  const std::string& distribution_;  // its name
  const Manifest& manifest_;
  FamilyMatcher& matcher_;
  uint32_t group_;
  std::vector<PartTensor> trunk_tensors_, expert_tensors_;
  OutputFile trunk_, experts_;
  std::map<uint32_t, HeldExperts> tensors_of_;  // by layer and expert of the node
  std::set<uint32_t> packed_layers_;
  NodeParts out_;
};

}  // namespace

Result<NodeParts> CutNode(const SourceTreePtr& distribution, const Manifest& manifest,
                          FamilyMatcher& matcher, uint32_t group) {
  return NodeCutter(distribution, manifest, matcher, group).Cut();
}

}  // namespace moepack::manifest
