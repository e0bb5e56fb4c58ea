#include "libshard/sizing/node_bytes.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "libshard/base/bytes.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/gguf_cut.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/gguf.h"
#include "libshard/format/gguf_set.h"
#include "libshard/format/output_file.h"
#include "libshard/model/family_match.h"
#include "libshard/model/layer_experts.h"
#include "libshard/model/model.h"
#include "libshard/pack/slice.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/plan/plan.h"

namespace moepack {
namespace {

// The weight files of a node before its distribution exists: what `assemble` will make from the
// bundles.

struct GgufNodeInput {
  const std::string& where;  // names the source in errors
  const GgufModel& model;    // typed
  uint64_t alignment = 0;
};

// Returns how many experts every router of the node may pick from; kUnsupported if layers differ.
Result<uint32_t> NodeExpertCount(const Plan& plan, size_t group) {
  const uint32_t first = plan.layers.begin()->first;
  const size_t count = Eligible(plan, group, first).size();
  for (const auto& [layer, unused] : plan.layers) {
    const size_t eligible = Eligible(plan, group, layer).size();
    if (eligible == count) continue;
    return Error{Code::kUnsupported,
                 Cat("group ", group, ": expected as many eligible experts in layer ", layer,
                     " as in layer ", first, " (", count, "), found ", eligible),
                 "a model has one expert count for all layers: plan with --uniform"};
  }
  return static_cast<uint32_t>(count);
}

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
    const auto layer = found.layer ? plan_.layers.find(*found.layer) : plan_.layers.end();
    const bool whole = layer != plan_.layers.end() &&
                       Eligible(plan_, group_, layer->first).size() == layer->second;
    if (found.rule != nullptr && found.rule->holds_expert_ids && !whole) {
      return Error{Code::kUnsupported,
                   Cat("tensor ", Quoted(tensor.entry.name),
                       ": expected a router that scores experts, found a table that gives tokens "
                       "fixed experts, some of which are not on this node")};
    }
    if (IsOfChunks(found.rule) && layer != plan_.layers.end() && !whole) {
      return Error{Code::kUnsupported,
                   Cat("tensor ", Quoted(tensor.entry.name), ": ", kChunkProblem)};
    }
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

// Returns the two safetensors files of a node, trunk and experts. `bundles` are the distribution's
// files of trunk, group and overlay, laid out.
Result<std::vector<OutputFile>> LayOutCheckpointNode(const MoeModel& model, const Plan& plan,
                                                     size_t group,
                                                     const std::vector<OutputFile>& bundles) {
  return CheckpointNode(model, plan, group).LayOut(bundles);
}

// Head, trunk and experts, as `assemble` writes them.
constexpr uint64_t kNodeFiles = 3;

// What the runtime needs from the node's own file: the experts, and their rows and bias in the
// router.
bool GoesWithExperts(const GgufTensor& tensor) {
  return tensor.expert_count > 0 && (tensor.part == Part::kExpert || tensor.part == Part::kRouter);
}

GgufMetadata SetMetadata(const GgufModel& model, uint16_t number) {
  GgufMetadata metadata;
  metadata.Set("general.architecture", GgufValue::String(model.architecture()));
  metadata.Set(kSplitNoKey, GgufValue::U16(number));
  return metadata;
}

// Returns head and experts of a split set whose trunk is `trunk` (roles kHead, kTrunk, kGroup).
// REQUIRES: `plan` has no layers that the model lacks (PlanFor).
Result<std::vector<OutputFile>> LayOutGgufNode(const GgufNodeInput& input, const Plan& plan,
                                               size_t group, OutputFile trunk) {
  ExpertCut cut;
  SHARD_TRY(cut.expert_count, NodeExpertCount(plan, group));
  for (const auto& [layer, unused] : plan.layers) {
    cut.eligible[layer] = Eligible(plan, group, layer);
  }
  OutputFile experts;
  experts.role = Role::kGroup;
  for (const GgufTensor& tensor : input.model.tensors) {
    if (!GoesWithExperts(tensor)) continue;
    const ExpertIds& ids = IdsOf(cut.eligible, *tensor.layer);
    if (ids.empty()) continue;
    SHARD_TRY(OutputTensor rows, EncodeExperts(tensor, tensor.type, ids));
    experts.tensors.push_back(std::move(rows));
  }
  LayOutGguf(experts, SetMetadata(input.model, kNodeFiles - 1), input.alignment);

  OutputFile head;
  head.role = Role::kHead;
  GgufMetadata metadata = input.model.metadata;
  std::vector<std::string> notes;
  SHARD_CHECK(CutMetadata(input.where, cut, metadata, notes));
  SetSplitKeys(0, kNodeFiles, trunk.tensors.size() + experts.tensors.size(), metadata);
  LayOutGguf(head, metadata, input.alignment);

  std::vector<OutputFile> files;
  files.push_back(std::move(head));
  files.push_back(std::move(trunk));
  files.push_back(std::move(experts));
  const std::string name = "node";
  for (uint32_t i = 0; i < kNodeFiles; ++i) {
    files[i].path = GgufPartFileName(name, i, kNodeFiles);
  }
  return files;
}

constexpr std::string_view kEmbeddingName = "token_embd.weight", kHeadName = "output.weight";

// One group that may pick from the first experts of every layer; no node has the others.
Plan FirstExperts(const MoeModel& model, uint32_t eligible) {
  Plan plan;
  plan.scheme = "explicit";
  plan.layers = LayerCountsOf(model);
  plan.top_k = TopKOf(model);
  plan.groups.resize(1);
  for (const auto& [layer, expert_count] : plan.layers) {
    ExpertIds& owned = plan.groups[0].owned[layer];
    owned.resize(eligible);
    std::iota(owned.begin(), owned.end(), 0u);
    if (eligible == expert_count) continue;
    ExpertIds& rest = plan.remainder[layer];
    rest.resize(expert_count - eligible);
    std::iota(rest.begin(), rest.end(), eligible);
  }
  plan.uniform = true;
  return plan;
}

SliceOptions PartsOfNode(size_t group) {
  SliceOptions options;
  options.parts.all = false;
  options.parts.trunk = options.parts.overlay = true;
  options.parts.groups = {static_cast<uint32_t>(group)};
  return options;
}

// Adds the bytes of a tensor with an expert axis, or of the trunk.
void AddTensor(const GgufTensor& tensor, uint64_t bytes, ModelBytes& out) {
  const bool by_expert =
      tensor.expert_count > 0 && (tensor.part == Part::kExpert || tensor.part == Part::kRouter);
  if (by_expert) {
    out.layers[*tensor.layer].expert += bytes / tensor.expert_count;
  } else if (tensor.layer) {
    out.layers[*tensor.layer].trunk += bytes;
  } else if (tensor.name.starts_with("output")) {
    out.after += bytes;
  } else {
    out.before += bytes;
    if (tensor.name == kEmbeddingName) out.embedding = bytes;
  }
}

ModelBytes BytesOf(const GgufModel& model, uint64_t alignment) {
  ModelBytes out;
  out.tied = std::none_of(model.tensors.begin(), model.tensors.end(),
                          [](const GgufTensor& tensor) { return tensor.name == kHeadName; });
  for (const GgufTensor& tensor : model.tensors) {
    AddTensor(tensor, AlignUp(tensor.bytes(), alignment), out);
  }
  return out;
}

ModelBytes BytesOf(const MoeModel& model) {
  ModelBytes out;
  out.tied = true;
  for (const ModelTensor& tensor : model.tensors()) {
    const uint64_t bytes = model.entry(tensor).bytes;
    const std::string_view role = tensor.rule == nullptr ? std::string_view() : tensor.rule->role;
    if (role == "head") out.tied = false;
    if (tensor.part == Part::kExpert) continue;
    if (tensor.layer) {
      out.layers[*tensor.layer].trunk += bytes;
    } else if (role == "head" || role == "norm") {
      out.after += bytes;
    } else {
      out.before += bytes;
      if (role == "embedding") out.embedding += bytes;
    }
  }
  for (const MoeLayer& layer : model.layers()) {
    out.layers[layer.layer].expert = layer.expert_bytes;
  }
  return out;
}

}  // namespace

Result<NodeSizer> NodeSizer::Make(const MoeModel& model, std::optional<QuantizeOptions> gguf) {
  const Checkpoint& checkpoint = model.checkpoint();
  if (checkpoint.names_only()) {
    return Error{Code::kNotFound,
                 Cat(checkpoint.source().string(),
                     ": expected the sizes of tensors, found an index, which has none"),
                 "a config.json beside it, or named as SRC, promises them"};
  }
  NodeSizer sizer(model);
  if (checkpoint.is_gguf() && !gguf) gguf.emplace();
  if (gguf) SHARD_CHECK(sizer.Convert(*std::move(gguf)));
  return sizer;
}

Status NodeSizer::Convert(QuantizeOptions options) {
  const Checkpoint& checkpoint = model_->checkpoint();
  auto typed = PrepareGguf(*model_, options);
  if (!typed && checkpoint.promised()) {
    options.convert.part = ConvertOptions::Part::kNoTokenizer;
    typed = PrepareGguf(*model_, options);
    if (typed) notes_.emplace_back("sizes are without the tokenizer, which is not there");
  }
  if (!typed) return std::move(typed).error();
  // Sizes follow from shapes, so a hundred thousand ranges would be copied for nothing.
  for (GgufTensor& tensor : typed->model.tensors) {
    tensor.sources.clear();
    tensor.rows.clear();
  }
  const std::vector<std::string> notes = GgufNotes(*typed);
  notes_.insert(notes_.end(), notes.begin(), notes.end());
  const std::vector<std::string>& faults = typed->model.faults;
  notes_.insert(notes_.end(), faults.begin(), faults.end());
  alignment_ = options.alignment;
  typed_ = std::make_shared<const TypedGguf>(*std::move(typed));
  return Ok();
}

Plan NodeSizer::PlanOf(const Plan& plan) const {
  return typed_ ? PlanFor(typed_->model, plan) : plan;
}

Result<std::vector<OutputFile>> NodeSizer::BundleFiles(const Plan& plan) const {
  if (!typed_) return SliceSafetensors(*model_, plan, {});
  const GgufSlicing slicing{typed_->model, model_->Version(""), typed_->recipe.overlay_types,
                            alignment_};
  return SliceGguf(slicing, PlanOf(plan), {});
}

Result<std::vector<OutputFile>> NodeSizer::NodeFiles(const Plan& plan, size_t group) const {
  if (typed_) return GgufNode(plan, group);
  SHARD_TRY(const auto bundles, SliceSafetensors(*model_, plan, PartsOfNode(group)));
  return LayOutCheckpointNode(*model_, plan, group, bundles);
}

Result<std::vector<OutputFile>> NodeSizer::GgufNode(const Plan& plan, size_t group) const {
  SliceOptions trunk_alone;
  trunk_alone.parts.all = false;
  trunk_alone.parts.trunk = true;
  const Plan there = PlanOf(plan);
  const GgufSlicing slicing{typed_->model, model_->Version(""), {}, alignment_};
  SHARD_TRY(std::vector<OutputFile> files, SliceGguf(slicing, there, trunk_alone));
  const auto trunk = std::find_if(files.begin(), files.end(),
                                  [](const OutputFile& file) { return file.role == Role::kTrunk; });
  const std::string where = model_->checkpoint().source().string();
  return LayOutGgufNode({where, typed_->model, alignment_}, there, group, std::move(*trunk));
}

Result<NodeBytes> NodeSizer::Node(const Plan& plan, size_t group) const {
  SHARD_TRY(const auto files, NodeFiles(plan, group));
  NodeBytes bytes;
  for (const OutputFile& file : files) {
    uint64_t& part = file.role == Role::kHead    ? bytes.head
                     : file.role == Role::kTrunk ? bytes.trunk
                                                 : bytes.experts;
    part += file.size;
  }
  return bytes;
}

Result<NodeBytes> NodeSizer::NodeOf(uint32_t eligible) const {
  return Node(FirstExperts(*model_, eligible), 0);
}

ModelBytes NodeSizer::Layers() const {
  return typed_ ? BytesOf(typed_->model, alignment_) : BytesOf(*model_);
}

}  // namespace moepack
