#include "libshard/fit/node_bytes.h"

#include <algorithm>
#include <numeric>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/fit/node_layout.h"
#include "libshard/pack/slice_gguf.h"

namespace moepack {
namespace {

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
