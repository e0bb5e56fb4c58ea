#include "manifest/node_parts.h"

#include <algorithm>
#include <set>

#include "libshard/checkpoint_index.h"
#include "libshard/digest.h"
#include "libshard/expert_name.h"
#include "libshard/file.h"
#include "libshard/layer_experts.h"
#include "libshard/safetensors.h"
#include "libshard/text.h"

namespace manifest {
namespace {

using shard::Cat;
using shard::Code;
using shard::Error;
using shard::ExpertIds;
using shard::Ok;
namespace fs = shard::fs;

constexpr const char* kTrunkFile = "model-00001-of-00002.safetensors";
constexpr const char* kExpertsFile = "model-00002-of-00002.safetensors";

// A tensor of the distribution: what the manifest says of it, and where it is.
struct PartTensor {
  const TensorRecord* record = nullptr;
  shard::TensorEntry entry;  // `file` indexes NodeParts::sources
};

class NodeCutter {
 public:
  NodeCutter(const std::string& distribution, const Manifest& manifest,
             shard::FamilyMatcher& matcher, uint32_t group)
      : distribution_(distribution), manifest_(manifest), matcher_(matcher), group_(group) {}

  Result<NodeParts> Cut() {
    SHARD_CHECK(CheckUniform());
    SHARD_CHECK(OpenBundles());
    trunk_.path = kTrunkFile;
    experts_.path = kExpertsFile;
    experts_.role = shard::Role::kGroup;
    for (const PartTensor& tensor : trunk_tensors_) SHARD_CHECK(AddTrunkTensor(tensor));
    SHARD_CHECK(AddExperts());
    for (shard::OutputFile* file : {&trunk_, &experts_}) {
      shard::LayOutSafetensors(*file, {{"format", "pt"}});
      out_.files.push_back(std::move(*file));
    }
    return std::move(out_);
  }

 private:
  // Model runtimes know one expert count for all layers.
  Status CheckUniform() {
    const auto& [first_layer, unused] = *manifest_.plan.layers.begin();
    out_.experts = static_cast<uint32_t>(EligibleIn(first_layer).size());
    for (const auto& [layer, count] : manifest_.plan.layers) {
      const size_t eligible = EligibleIn(layer).size();
      if (eligible == out_.experts) continue;
      return Error{
          Code::kUnsupported,
          Cat(distribution_, ": group ", group_,
              ": expected as many eligible experts in "
              "layer ",
              layer, " as in layer ", first_layer, " (", out_.experts, "), found ", eligible),
          "a model directory has one expert count for all layers: plan with --uniform"};
    }
    return Ok();
  }

  Status OpenBundles() {
    bool trunk = false;
    bool group = false;
    bool overlay = manifest_.plan.overlay_version.empty();
    for (const BundleRecord& bundle : manifest_.bundles) {
      const bool own =
          bundle.role == shard::Role::kGroup && bundle.group == static_cast<int>(group_);
      trunk = trunk || bundle.role == shard::Role::kTrunk;
      group = group || own;
      overlay = overlay || bundle.role == shard::Role::kOverlay;
      if (bundle.role == shard::Role::kTrunk) SHARD_CHECK(OpenBundle(bundle, trunk_tensors_));
      if (own || bundle.role == shard::Role::kOverlay) {
        SHARD_CHECK(OpenBundle(bundle, expert_tensors_));
      }
    }
    if (trunk && group && overlay) return Ok();
    return Error{Code::kNotFound,
                 Cat(distribution_, ": ",
                     !trunk   ? "trunk"
                     : !group ? Cat("group ", group_)
                              : "overlay",
                     ": expected a file in the manifest, found none"),
                 "this distribution holds only some parts; add them with shard-experts --only"};
  }

  Status OpenBundle(const BundleRecord& bundle, std::vector<PartTensor>& tensors) {
    SHARD_CHECK(shard::CheckInside(distribution_, bundle.file));
    const fs::path path = fs::path(distribution_) / bundle.file;
    SHARD_TRY(const shard::MappedFile mapped, shard::MappedFile::Open(path));
    SHARD_TRY(const shard::SafetensorsHeader header,
              shard::ParseSafetensors(path.string(), mapped.bytes(), mapped.bytes().size()));
    const auto file = static_cast<uint32_t>(out_.sources.size());
    out_.sources.push_back(
        {.path = path,
         .name = bundle.file,
         .size = mapped.bytes().size(),
         .data_start = header.data_start,
         .header_sha256 = shard::Sha256Hex(mapped.bytes().first(header.data_start)),
         .identity = mapped.identity()});
    std::map<std::string_view, const TensorRecord*> records;
    for (const TensorRecord& record : bundle.tensors) records[record.name] = &record;
    for (shard::TensorEntry entry : header.tensors) {
      const auto found = records.find(entry.name);
      const TensorRecord* record = found == records.end() ? nullptr : found->second;
      if (record == nullptr || record->offset != entry.offset || record->shape != entry.shape ||
          record->dtype != entry.dtype || header.tensors.size() != records.size()) {
        return Error{Code::kMismatch,
                     Cat(path.string(), ": tensor ", shard::Quoted(entry.name),
                         ": expected as the manifest says, found otherwise"),
                     "the distribution is damaged: run moepack verify on it"};
      }
      entry.file = file;
      tensors.push_back({record, std::move(entry)});
    }
    return Ok();
  }

  ExpertIds EligibleIn(uint32_t layer) const {
    return shard::Eligible(manifest_.plan, group_, layer);
  }

  shard::OutputTensor Whole(const PartTensor& tensor, const std::string& name) {
    shard::OutputTensor out;
    out.entry = tensor.entry;
    out.entry.name = name;
    out.sources = {{tensor.entry.file, tensor.entry.offset, tensor.entry.bytes}};
    out.source_tensor = tensor.entry.name;
    out_.digests[name] = tensor.record->xxh3;
    return out;
  }

  // Router rows are cut to the eligible experts; everything else goes over as it is.
  Status AddTrunkTensor(const PartTensor& tensor) {
    const shard::TensorClass found = matcher_.Classify(tensor.entry.name);
    const bool by_expert = found.rule != nullptr && found.rule->expert_axis != shard::kNoAxis;
    const auto layer = manifest_.plan.layers.find(static_cast<uint32_t>(found.layer));
    if (found.rule != nullptr && found.rule->holds_expert_ids) {
      return Error{Code::kUnsupported,
                   Cat(distribution_, ": tensor ", shard::Quoted(tensor.entry.name),
                       ": expected a router that scores experts, found a table that gives tokens "
                       "fixed experts, some of which are not on this node")};
    }
    if (!by_expert || found.layer < 0 || layer == manifest_.plan.layers.end()) {
      trunk_.tensors.push_back(Whole(tensor, tensor.entry.name));
      return Ok();
    }
    return AddRouterRows(tensor, *found.rule, layer->first, layer->second);
  }

  Status AddRouterRows(const PartTensor& tensor, const shard::TensorRule& rule, uint32_t layer,
                       uint32_t experts) {
    const auto axis = shard::AxisIn(tensor.entry.shape, rule.expert_axis);
    const uint64_t length = axis ? tensor.entry.shape[*axis] : 0;
    if (length == 0 || length % experts != 0) {
      return Error{Code::kMismatch,
                   Cat(distribution_, ": tensor ", shard::Quoted(tensor.entry.name), ": expected ",
                       experts, " rows, found ", length)};
    }
    shard::OutputTensor out;
    out.entry = tensor.entry;
    out.sources =
        shard::SliceAxis(tensor.entry, static_cast<int>(*axis), experts, EligibleIn(layer));
    out.entry.shape[*axis] = length / experts * out_.experts;
    out.entry.bytes = tensor.entry.bytes / experts * out_.experts;
    out.source_tensor = tensor.entry.name;
    trunk_.tensors.push_back(std::move(out));
    return Ok();
  }

  // In the order of the group's file, then what only the overlay has. A packed tensor takes the
  // place of its first part.
  Status AddExperts() {
    std::map<std::string, std::vector<const PartTensor*>> by_name;
    for (const PartTensor& tensor : expert_tensors_) by_name[tensor.entry.name].push_back(&tensor);
    for (const PartTensor& tensor : expert_tensors_) {
      const std::vector<const PartTensor*>& parts = by_name[tensor.entry.name];
      if (parts[0] != &tensor) continue;
      const shard::TensorClass found = matcher_.Classify(tensor.entry.name);
      const Status added = found.rule != nullptr && found.expert >= 0 ? AddExplicit(tensor, found)
                                                                      : AddPacked(parts, found);
      if (!added) return added;
    }
    return CheckComplete();
  }

  // Every layer has experts, and where they are tensors of their own each has as many.
  Status CheckComplete() const {
    for (const auto& [layer, unused] : manifest_.plan.layers) {
      const auto explicit_layer = tensors_of_.find(layer);
      bool complete = explicit_layer != tensors_of_.end() || packed_layers_.contains(layer);
      for (uint32_t id = 0; complete && explicit_layer != tensors_of_.end() && id < out_.experts;
           ++id) {
        const std::map<uint32_t, size_t>& counts = explicit_layer->second;
        const auto count = counts.find(id);
        complete = count != counts.end() && count->second == counts.begin()->second;
      }
      if (complete) continue;
      return Error{Code::kMismatch,
                   Cat(distribution_, ": layer ", layer, ": expected all tensors of ", out_.experts,
                       " experts in group and overlay, found fewer"),
                   "the distribution is damaged: run moepack verify on it"};
    }
    return Ok();
  }

  Status AddExplicit(const PartTensor& tensor, const shard::TensorClass& found) {
    const ExpertIds eligible = EligibleIn(static_cast<uint32_t>(found.layer));
    const auto id = static_cast<uint32_t>(found.expert);
    const auto at = std::lower_bound(eligible.begin(), eligible.end(), id);
    if (at == eligible.end() || *at != id) return NotEligible(tensor, id);
    const auto local = static_cast<uint32_t>(at - eligible.begin());
    SHARD_TRY(const std::string name, shard::RenumberExpert(matcher_, tensor.entry.name, local));
    ++tensors_of_[static_cast<uint32_t>(found.layer)][local];
    experts_.tensors.push_back(Whole(tensor, name));
    return Ok();
  }

  Status AddPacked(const std::vector<const PartTensor*>& parts, const shard::TensorClass& found) {
    const PartTensor& first = *parts[0];
    if (first.record->experts.empty()) {  // one value for all experts
      experts_.tensors.push_back(Whole(first, first.entry.name));
      return Ok();
    }
    if (found.rule == nullptr || found.layer < 0 || found.rule->expert_axis == shard::kNoAxis) {
      return Error{Code::kMismatch, Cat(distribution_, ": tensor ", shard::Quoted(first.entry.name),
                                        ": expected an expert tensor, found a name that no rule "
                                        "of the family reads as one")};
    }
    const auto axis = shard::AxisIn(first.entry.shape, found.rule->expert_axis);
    if (axis != size_t{0}) {
      return Error{Code::kUnsupported,
                   Cat(distribution_, ": tensor ", shard::Quoted(first.entry.name),
                       ": expected experts along axis 0, found axis ",
                       axis ? Cat(*axis) : Cat(found.rule->expert_axis))};
    }
    shard::OutputTensor out;
    out.entry = first.entry;
    out.entry.bytes = 0;
    out.source_tensor = first.entry.name;
    uint64_t rows_per_expert = 0;
    for (const uint32_t id : EligibleIn(static_cast<uint32_t>(found.layer))) {
      const PartTensor* holder = HolderOf(parts, id);
      if (holder == nullptr) return NotEligible(first, id);
      if (!SameExperts(first, *holder)) return NotAlike(first);
      const auto held = static_cast<uint32_t>(holder->record->experts.size());
      const auto at =
          std::lower_bound(holder->record->experts.begin(), holder->record->experts.end(), id);
      const auto local = static_cast<uint32_t>(at - holder->record->experts.begin());
      for (const shard::SourceRange& range : shard::SliceAxis(holder->entry, 0, held, {local})) {
        out.sources.push_back(range);
        out.entry.bytes += range.bytes;
      }
      rows_per_expert = holder->entry.shape[0] / held;
    }
    out.entry.shape[0] = rows_per_expert * out_.experts;
    packed_layers_.insert(static_cast<uint32_t>(found.layer));
    experts_.tensors.push_back(std::move(out));
    return Ok();
  }

  static const PartTensor* HolderOf(const std::vector<const PartTensor*>& parts, uint32_t id) {
    for (const PartTensor* part : parts) {
      if (!part->entry.shape.empty() && shard::Contains(part->record->experts, id)) return part;
    }
    return nullptr;
  }

  // Whether one expert of `b` has the type, shape and size of one of `a`.
  static bool SameExperts(const PartTensor& a, const PartTensor& b) {
    const uint64_t held_a = a.record->experts.size();
    const uint64_t held_b = b.record->experts.size();
    const std::vector<uint64_t>& shape_a = a.entry.shape;
    const std::vector<uint64_t>& shape_b = b.entry.shape;
    return a.entry.dtype == b.entry.dtype && shape_a.size() == shape_b.size() &&
           std::equal(shape_a.begin() + 1, shape_a.end(), shape_b.begin() + 1) &&
           shape_a[0] % held_a == 0 && shape_b[0] % held_b == 0 &&
           shape_a[0] / held_a == shape_b[0] / held_b;
  }

  Error NotAlike(const PartTensor& tensor) const {
    return Error{Code::kMismatch,
                 Cat(distribution_, ": tensor ", shard::Quoted(tensor.entry.name),
                     ": expected whole experts of one type and shape in group and overlay, found "
                     "others"),
                 "the distribution is damaged: run moepack verify on it"};
  }

  Error NotEligible(const PartTensor& tensor, uint32_t id) const {
    return Error{Code::kMismatch,
                 Cat(distribution_, ": tensor ", shard::Quoted(tensor.entry.name), ": expert ", id,
                     ": expected the experts that the plan gives this node, found others"),
                 "the distribution is damaged: run moepack verify on it"};
  }

  const std::string& distribution_;
  const Manifest& manifest_;
  shard::FamilyMatcher& matcher_;
  uint32_t group_;
  std::vector<PartTensor> trunk_tensors_, expert_tensors_;
  shard::OutputFile trunk_, experts_;
  std::map<uint32_t, std::map<uint32_t, size_t>> tensors_of_;  // layer -> expert of the node
  std::set<uint32_t> packed_layers_;
  NodeParts out_;
};

}  // namespace

Result<NodeParts> CutNode(const std::string& distribution, const Manifest& manifest,
                          shard::FamilyMatcher& matcher, uint32_t group) {
  return NodeCutter(distribution, manifest, matcher, group).Cut();
}

}  // namespace manifest
