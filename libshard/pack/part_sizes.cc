#include "libshard/pack/part_sizes.h"

#include <optional>
#include <span>
#include <utility>

#include "libshard/format/gguf.h"
#include "libshard/format/safetensors.h"
#include "libshard/pack/slice.h"

namespace moepack {
namespace {

ExpertPart TrunkPart() { return {Role::kTrunk, std::nullopt, "trunk", {}}; }

// Which groups hold an expert of a layer, for all experts of all layers in one list.
class HoldersOfExperts {
 public:
  HoldersOfExperts(const std::vector<ExpertPart>& parts, const LayerCounts& layers) {
    for (const auto& [layer, expert_count] : layers) {
      if (first_.size() <= layer) first_.resize(layer + 1);
      first_[layer] = ends_.size();
      ends_.resize(ends_.size() + expert_count);
    }
    ForEach(parts, [&](size_t slot, uint32_t) { ++ends_[slot]; });
    uint32_t sum = 0;
    // A counting sort: counts become the starts of the lists, and filling a list moves its start to
    // its end.
    for (uint32_t& end : ends_) end = std::exchange(sum, sum + end);
    holders_.resize(sum);
    ForEach(parts, [&](size_t slot, uint32_t part) { holders_[ends_[slot]++] = part; });
  }

  std::span<const uint32_t> Of(uint32_t layer, uint32_t expert) const {
    const size_t slot = first_[layer] + expert;
    const uint32_t begin = slot == 0 ? 0 : ends_[slot - 1];
    return std::span(holders_).subspan(begin, ends_[slot] - begin);
  }

 private:
  template <class Take>
  void ForEach(const std::vector<ExpertPart>& parts, const Take& take) const {
    for (uint32_t part = 0; part < parts.size(); ++part) {
      for (const auto& [layer, ids] : parts[part].experts_by_layer) {
        for (const uint32_t id : ids) take(first_[layer] + id, part);
      }
    }
  }

  std::vector<size_t> first_;      // slot of expert 0, by layer
  std::vector<uint32_t> ends_;     // where the slot's part of `holders_` ends
  std::vector<uint32_t> holders_;  // numbers of parts, ascending for each expert
};

// One file of safetensors.
class SafetensorsPart {
 public:
  explicit SafetensorsPart(const std::map<std::string, std::string>& metadata) : size_(metadata) {}

  void Add(uint64_t entry_bytes, uint64_t bytes, uint64_t source_offset) {
    // The size of the header depends on it (LayOutSafetensors).
    if (!start_) start_ = source_offset;
    size_.Add(entry_bytes, bytes);
  }
  void Add(const OutputTensor& tensor) {
    Add(SafetensorsFileSize::EntryBytes(tensor.entry), tensor.entry.bytes,
        tensor.sources.empty() ? 0 : tensor.sources[0].offset);
  }
  // No tensors, no file.
  uint64_t Bytes() const { return start_ ? size_.Finish(*start_) : 0; }

 private:
  SafetensorsFileSize size_;
  std::optional<uint64_t> start_;  // of the first tensor in its source
};

}  // namespace

SafetensorsSizes::SafetensorsSizes(const MoeModel& model) : model_(model) {
  entry_bytes_.reserve(model.checkpoint().tensors().size());
  for (const TensorEntry& entry : model.checkpoint().tensors()) {
    entry_bytes_.push_back(SafetensorsFileSize::EntryBytes(entry));
  }
}

Result<PartSizes> SafetensorsSizes::Of(const Plan& plan) const {
  const std::vector<ExpertPart> groups = ExpertParts(plan, {});
  const HoldersOfExperts holders(groups, plan.layers);
  const std::string version = model_.Version("");
  SafetensorsPart trunk(SafetensorsPartMetadata(version, TrunkPart(), plan.layers));
  std::vector<SafetensorsPart> parts;
  for (const ExpertPart& group : groups) {
    parts.emplace_back(SafetensorsPartMetadata(version, group, plan.layers));
  }
  for (const ModelTensor& tensor : model_.tensors()) {
    const TensorEntry& entry = model_.entry(tensor);
    const auto add_whole = [&](SafetensorsPart& part) {
      part.Add(entry_bytes_[tensor.index], entry.bytes, entry.offset);
    };
    if (tensor.part != Part::kExpert) {
      add_whole(trunk);
    } else if (!tensor.packed_expert()) {
      for (const uint32_t part : holders.Of(*tensor.layer, *tensor.expert)) add_whole(parts[part]);
    } else {
      for (size_t i = 0; i < parts.size(); ++i) {
        const ExpertIds& ids = IdsOf(groups[i].experts_by_layer, *tensor.layer);
        if (ids.empty()) continue;
        if (!tensor.axis) {
          add_whole(parts[i]);
          continue;
        }
        SHARD_TRY(const OutputTensor cut, CutTensor(model_, tensor, ids));
        parts[i].Add(cut);
      }
    }
  }
  PartSizes out;
  out.trunk = trunk.Bytes();
  for (const SafetensorsPart& part : parts) out.groups.push_back(part.Bytes());
  return out;
}

Status GgufSizes::Add(const GgufTensor& tensor) {
  SHARD_TRY(const OutputTensor whole, EncodeTensor(tensor, tensor.type));
  const bool expert = BelongsToExperts(tensor);
  const Tensor sized{GgufFileSize::EntryBytes(whole.entry), whole.entry.bytes,
                     expert ? *tensor.layer : 0, tensor.expert_count};
  (expert ? experts_ : trunk_).push_back(sized);
  return Ok();
}

Result<GgufSizes> GgufSizes::Make(const GgufSlicing& input) {
  GgufSizes out(input);
  out.head_ = GgufFileSize(input.model.metadata, input.alignment).Finish();
  // Visits tensors in the order in which SliceGguf would find one that cannot be written.
  for (const bool expert : {false, true}) {
    for (const GgufTensor& tensor : input.model.tensors) {
      if (BelongsToExperts(tensor) == expert) SHARD_CHECK(out.Add(tensor));
    }
  }
  return out;
}

PartSizes GgufSizes::Of(const Plan& plan) const {
  const std::string architecture = input_.model.architecture();
  const GgufPartModel model{architecture, input_.version};
  const auto metadata = [&](const ExpertPart& part) {
    return GgufPartMetadata(model, part, plan.layers);
  };
  PartSizes out;
  GgufFileSize trunk(GgufTrunkMetadata(metadata(TrunkPart()), 0), input_.alignment);
  for (const Tensor& tensor : trunk_) trunk.Add(tensor.entry_bytes, tensor.bytes);
  out.trunk = head_ + trunk.Finish();
  for (const ExpertPart& group : ExpertParts(plan, {})) {
    GgufFileSize file(metadata(group), input_.alignment);
    bool any = false;
    for (const Tensor& tensor : experts_) {
      const uint64_t held = IdsOf(group.experts_by_layer, tensor.layer).size();
      // All experts of a tensor have the same size, and the header has room for any count.
      if (held > 0) file.Add(tensor.entry_bytes, tensor.bytes / tensor.expert_count * held);
      any = any || held > 0;
    }
    out.groups.push_back(any ? file.Finish() : 0);
  }
  return out;
}

}  // namespace moepack
