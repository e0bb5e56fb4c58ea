#include <algorithm>
#include <map>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/fit/node_layout.h"
#include "libshard/model/expert_name.h"
#include "libshard/model/layer_experts.h"
#include "libshard/pack/slice.h"

namespace moepack {
namespace {

// Cuts bundles that are laid out but not written. Offsets matter, because a node's data starts at
// the same position modulo 4096 as the data it is copied from.
class CheckpointNode {
 public:
  CheckpointNode(const MoeModel& model, const Plan& plan, size_t group)
      : plan_(plan), group_(group), matcher_(model.family(), model.config().layers) {}

  Result<std::vector<OutputFile>> LayOut(const std::vector<OutputFile>& bundles) {
    SHARD_CHECK(NodeExpertCount(plan_, group_));
    std::vector<const OutputTensor*> experts;
    OutputFile trunk;
    trunk.path = "model-00001-of-00002.safetensors";
    for (const OutputFile& bundle : bundles) {
      for (const OutputTensor& tensor : bundle.tensors) {
        if (bundle.role == Role::kTrunk) {
          SHARD_TRY(OutputTensor kept, TrunkTensor(tensor));
          trunk.tensors.push_back(std::move(kept));
        } else {
          experts.push_back(&tensor);
        }
      }
    }
    OutputFile held;
    held.path = "model-00002-of-00002.safetensors";
    held.role = Role::kGroup;
    SHARD_CHECK(AddExperts(experts, held));
    std::vector<OutputFile> files;
    for (OutputFile* file : {&trunk, &held}) {
      LayOutSafetensors(*file, {{"format", "pt"}});
      files.push_back(std::move(*file));
    }
    return files;
  }

 private:
  static OutputTensor Copied(const OutputTensor& tensor) {
    OutputTensor out;
    out.entry = tensor.entry;
    out.layer = tensor.layer;
    out.sources = {{.file = 0, .offset = tensor.entry.offset, .bytes = tensor.entry.bytes}};
    return out;
  }

  // Router rows are cut to the eligible experts; everything else is copied unchanged.
  Result<OutputTensor> TrunkTensor(const OutputTensor& tensor) {
    OutputTensor out = Copied(tensor);
    const TensorClass found = matcher_.Classify(tensor.entry.name);
    if (found.rule != nullptr && found.rule->holds_expert_ids) {
      return Error{Code::kUnsupported,
                   Cat("tensor ", Quoted(tensor.entry.name),
                       ": expected a router that scores experts, found a table that gives tokens "
                       "fixed experts, some of which are not on this node")};
    }
    const auto layer = found.layer ? plan_.layers.find(*found.layer) : plan_.layers.end();
    if (found.rule == nullptr || !found.rule->expert_axis || layer == plan_.layers.end()) {
      return out;
    }
    const auto axis = AxisIn(tensor.entry.shape, found.rule->expert_axis);
    if (!axis) return out;
    const ExpertIds ids = Eligible(plan_, group_, layer->first);
    out.sources = SliceAxis(tensor.entry, *axis, layer->second, ids);
    out.entry.shape[*axis] = tensor.entry.shape[*axis] / layer->second * ids.size();
    out.entry.bytes = tensor.entry.bytes / layer->second * ids.size();
    return out;
  }

  // In the order of the group's file, followed by what only the overlay has. A packed tensor goes
  // where its first part would.
  Status AddExperts(const std::vector<const OutputTensor*>& tensors, OutputFile& file) {
    std::map<std::string_view, std::vector<const OutputTensor*>> by_name;
    for (const OutputTensor* tensor : tensors) by_name[tensor->entry.name].push_back(tensor);
    for (const OutputTensor* tensor : tensors) {
      const std::vector<const OutputTensor*>& parts = by_name[tensor->entry.name];
      if (parts[0] != tensor) continue;
      const TensorClass found = matcher_.Classify(tensor->entry.name);
      if (found.rule != nullptr && found.expert) {
        // An overlay's file also holds what it adds to other groups.
        if (!Contains(Eligible(plan_, group_, *found.layer), *found.expert)) continue;
        SHARD_TRY(OutputTensor renamed, Renumbered(*tensor, found));
        file.tensors.push_back(std::move(renamed));
      } else if (tensor->expert_ids.empty()) {
        file.tensors.push_back(Copied(*tensor));
      } else {
        file.tensors.push_back(Merged(parts, *found.layer));
      }
    }
    return Ok();
  }

  Result<OutputTensor> Renumbered(const OutputTensor& tensor, const TensorClass& found) {
    const ExpertIds ids = Eligible(plan_, group_, *found.layer);
    const auto local = static_cast<uint32_t>(
        std::lower_bound(ids.begin(), ids.end(), *found.expert) - ids.begin());
    OutputTensor out = Copied(tensor);
    SHARD_TRY(out.entry.name, RenumberExpert(matcher_, tensor.entry.name, local));
    return out;
  }

  OutputTensor Merged(const std::vector<const OutputTensor*>& parts, uint32_t layer) const {
    const OutputTensor& first = *parts[0];
    const ExpertIds ids = Eligible(plan_, group_, layer);
    OutputTensor out = Copied(first);
    out.expert_ids = ids;
    out.entry.shape[0] = first.entry.shape[0] / first.expert_ids.size() * ids.size();
    out.entry.bytes = first.entry.bytes / first.expert_ids.size() * ids.size();
    out.sources = {FirstRange(parts, ids[0])};
    return out;
  }

  // Only the position of the first expert determines the layout of the file.
  static SourceRange FirstRange(const std::vector<const OutputTensor*>& parts, uint32_t id) {
    for (const OutputTensor* part : parts) {
      const ExpertIds& held = part->expert_ids;
      const auto at = std::lower_bound(held.begin(), held.end(), id);
      if (at == held.end() || *at != id) continue;
      const auto local = static_cast<uint32_t>(at - held.begin());
      const auto count = static_cast<uint32_t>(held.size());
      return SliceAxis(part->entry, 0, count, {local})[0];
    }
    return {};
  }

  const Plan& plan_;
  size_t group_;
  FamilyMatcher matcher_;
};

}  // namespace

Result<std::vector<OutputFile>> LayOutCheckpointNode(const MoeModel& model, const Plan& plan,
                                                     size_t group,
                                                     const std::vector<OutputFile>& bundles) {
  return CheckpointNode(model, plan, group).LayOut(bundles);
}

}  // namespace moepack
