#include "libshard/pack/slice.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "libshard/base/bytes.h"
#include "libshard/base/text/text.h"
#include "libshard/format/safetensors.h"
#include "libshard/pack/refit_tensors.h"

namespace moepack {
namespace {

// Sorted like the paths of their files, because parts made by several runs are listed that way: '/'
// follows the directory, and '-' and '.' come before '/'.
void AddOverlays(const Plan& plan, std::vector<ExpertPart>& parts) {
  const size_t first = parts.size();
  for (const OverlayPlan& overlay : plan.overlays) {
    parts.push_back({Role::kOverlay, std::nullopt, OverlayDirectory(overlay.version),
                     HeldBy(overlay), overlay.version});
  }
  std::sort(parts.begin() + static_cast<std::ptrdiff_t>(first), parts.end(),
            [](const ExpertPart& a, const ExpertPart& b) {
              return a.directory + "/" < b.directory + "/";
            });
}

}  // namespace

std::vector<ExpertPart> ExpertParts(const Plan& plan, const SliceOptions& options) {
  std::vector<ExpertPart> parts;
  for (uint32_t g = 0; g < plan.groups.size(); ++g) {
    if (!options.parts.WantsGroup(g)) continue;
    parts.push_back({Role::kGroup, g, Cat("groups/", ZeroPadded(g, 3)), HeldBy(plan.groups[g])});
  }
  if (options.parts.WantsOverlay()) AddOverlays(plan, parts);
  const bool remainder = options.parts.all ? options.keep_remainder : options.parts.remainder;
  if (remainder && CountIds(plan.remainder) > 0) {
    parts.push_back({Role::kRemainder, std::nullopt, "remainder", plan.remainder});
  }
  return parts;
}

std::map<std::string, std::string> SafetensorsPartMetadata(const std::string& model_version,
                                                           const ExpertPart& part,
                                                           const LayerCounts& layers) {
  std::map<std::string, std::string> metadata = {
      {"format", "pt"},
      {"moepack.model", model_version},
      {"moepack.role", std::string(RoleName(part.role))},
  };
  if (part.group) metadata["moepack.group"] = std::to_string(*part.group);
  if (part.role == Role::kOverlay) metadata["moepack.overlay"] = part.overlay;
  if (part.role != Role::kTrunk)
    metadata["moepack.experts"] = LayerExpertsToJson(part.experts_by_layer, layers).dump();
  return metadata;
}

std::vector<std::vector<OutputTensor>> CutBySize(std::vector<OutputTensor> tensors, uint64_t limit,
                                                 const ContainerCost& cost) {
  std::vector<std::vector<OutputTensor>> lists(1);
  if (limit == 0) {
    lists[0] = std::move(tensors);  // an initializer list would copy the tensors
    return lists;
  }
  uint64_t header = cost.per_file;
  uint64_t data = 0;
  for (OutputTensor& tensor : tensors) {
    const uint64_t entry = cost.per_tensor + tensor.entry.name.size();
    const uint64_t bytes = AlignUp(tensor.entry.bytes, cost.alignment);
    const uint64_t file = AlignUp(header + entry, cost.alignment) + data + bytes;
    if (file > limit && !lists.back().empty()) {
      lists.emplace_back();
      header = cost.per_file;
      data = 0;
    }
    header += entry;
    data += bytes;
    lists.back().push_back(std::move(tensor));
  }
  return lists;
}

std::string PartFileName(const PartFile& part, size_t number, size_t count) {
  const std::string stem = Cat(part.directory, part.directory.empty() ? "" : "/", part.stem);
  if (count == 1) return Cat(stem, part.extension);
  // As the files of a set are numbered on the Hugging Face Hub and by llama-gguf-split.
  return Cat(stem, "-", ZeroPadded(number, 5), "-of-", ZeroPadded(count, 5), part.extension);
}

namespace {

// The tensors of one part of the distribution before they are cut into files.
struct PartContent {
  ExpertPart part;  // no experts for the trunk
  std::vector<OutputTensor> tensors;
};

uint64_t Product(const std::vector<uint64_t>& shape, size_t begin, size_t end) {
  return std::accumulate(shape.begin() + static_cast<std::ptrdiff_t>(begin),
                         shape.begin() + static_cast<std::ptrdiff_t>(end), uint64_t{1},
                         std::multiplies<>());
}

bool HoldsSome(const ExpertPart& part, const ModelTensor& tensor) {
  const ExpertIds& ids = IdsOf(part.experts_by_layer, *tensor.layer);
  if (tensor.packed_expert()) return !ids.empty();
  return Contains(ids, *tensor.expert);
}

// What a refit puts in place of the tensor in a group's part; no value if the source's bytes stay.
Result<std::optional<OutputTensor>> Refitted(const MoeModel& model, const ModelTensor& tensor,
                                             const ExpertPart& part, const RefitTensors* refit) {
  if (refit == nullptr || part.role != Role::kGroup || !tensor.layer)
    return std::optional<OutputTensor>();
  return refit->Make(model, tensor, *part.group, IdsOf(part.experts_by_layer, *tensor.layer));
}

// REQUIRES: HoldsSome(part.part, tensor).
Status AddExpertTensor(const MoeModel& model, const ModelTensor& tensor, const RefitTensors* refit,
                       PartContent& part) {
  SHARD_TRY(std::optional<OutputTensor> made, Refitted(model, tensor, part.part, refit));
  if (made) {
    part.tensors.push_back(*std::move(made));
  } else if (tensor.packed_expert() && tensor.axis) {
    const ExpertIds& ids = IdsOf(part.part.experts_by_layer, *tensor.layer);
    SHARD_TRY(OutputTensor cut, CutTensor(model, tensor, ids));
    part.tensors.push_back(std::move(cut));
  } else {
    part.tensors.push_back(WholeTensor(model, tensor));
  }
  return Ok();
}

// Routers are in the trunk; a group that was refitted also has router rows of its own.
Status AddRouterRows(const MoeModel& model, const ModelTensor& tensor, const RefitTensors* refit,
                     PartContent& part) {
  SHARD_TRY(std::optional<OutputTensor> made, Refitted(model, tensor, part.part, refit));
  if (made) part.tensors.push_back(*std::move(made));
  return Ok();
}

// Parts are filled one after another, and each list is reserved at the right size. A large model
// has hundreds of thousands of tensors, and a growing list is in memory twice while it moves.
Status FillPart(const MoeModel& model, const RefitTensors* refit, PartContent& part) {
  const auto wanted = [&](const ModelTensor& tensor) {
    const bool expert = tensor.part == Part::kExpert;
    if (part.part.role == Role::kTrunk) return !expert;
    return expert && HoldsSome(part.part, tensor);
  };
  const std::vector<ModelTensor>& tensors = model.tensors();
  part.tensors.reserve(static_cast<size_t>(std::count_if(tensors.begin(), tensors.end(), wanted)));
  for (const ModelTensor& tensor : tensors) {
    if (!wanted(tensor)) {
      if (tensor.part == Part::kRouter) SHARD_CHECK(AddRouterRows(model, tensor, refit, part));
      continue;
    }
    if (tensor.part == Part::kExpert) {
      SHARD_CHECK(AddExpertTensor(model, tensor, refit, part));
    } else {
      part.tensors.push_back(WholeTensor(model, tensor));
    }
  }
  return Ok();
}

std::vector<OutputFile> CutIntoFiles(PartContent content, uint64_t limit,
                                     const std::map<std::string, std::string>& metadata) {
  if (content.tensors.empty()) return {};
  const ExpertPart& part = content.part;
  const PartFile name{part.directory, part.role == Role::kTrunk ? "trunk" : "experts",
                      ".safetensors"};
  std::vector<std::vector<OutputTensor>> lists = CutBySize(std::move(content.tensors), limit);
  std::vector<OutputFile> files(lists.size());
  for (size_t i = 0; i < files.size(); ++i) {
    files[i].path = PartFileName(name, i + 1, files.size());
    files[i].role = part.role;
    files[i].group = part.group;
    files[i].tensors = std::move(lists[i]);
    LayOutSafetensors(files[i], metadata);
  }
  return files;
}

}  // namespace

bool PartSelection::WantsGroup(uint32_t group) const {
  return all || std::find(groups.begin(), groups.end(), group) != groups.end();
}

Result<PartSelection> ParseParts(const std::vector<std::string>& texts, size_t groups) {
  PartSelection parts;
  parts.all = texts.empty();
  for (const std::string& text : Split(Join(texts, ","), ',')) {
    if (parts.all) break;
    const bool is_group = text.starts_with("group:");
    const auto group = ParseUint(std::string_view(text).substr(is_group ? 6 : 0));
    if (text == "trunk") {
      parts.trunk = true;
    } else if (text == "overlay") {
      parts.overlay = true;
    } else if (text == "assets") {
      parts.assets = true;
    } else if (text == "remainder") {
      parts.remainder = true;
    } else if (is_group && group && *group < groups) {
      parts.groups.push_back(static_cast<uint32_t>(*group));
    } else {
      return Error{Code::kInvalidArgument,
                   Cat("--only: expected trunk, overlay, assets, remainder or group:0 to group:",
                       groups == 0 ? 0 : groups - 1, ", found ", Quoted(text))};
    }
  }
  return parts;
}

OutputTensor WholeTensor(const MoeModel& model, const ModelTensor& tensor) {
  const TensorEntry& entry = model.entry(tensor);
  OutputTensor out;
  out.entry = entry;
  out.sources = {{.file = entry.file, .offset = entry.offset, .bytes = entry.bytes}};
  out.layer = tensor.layer;
  if (tensor.expert) out.expert_ids = {*tensor.expert};
  return out;
}

Result<OutputTensor> CutTensor(const MoeModel& model, const ModelTensor& tensor,
                               const ExpertIds& ids) {
  const TensorEntry& entry = model.entry(tensor);
  const uint32_t axis = *tensor.axis;
  const uint64_t slices = Product(entry.shape, 0, axis + 1);
  const uint32_t expert_count = model.FindLayer(tensor.layer)->expert_count;
  if (slices == 0 || entry.bytes % slices != 0) {
    return Error{Code::kUnsupported,
                 Cat(model.checkpoint().files()[entry.file].path.string(), ": tensor ",
                     Quoted(entry.name), ": ", entry.dtype, " of shape ", FormatShape(entry.shape),
                     ": expected whole bytes per expert, found ", entry.bytes, " bytes in ",
                     Plural(slices, "slice"))};
  }
  OutputTensor out = WholeTensor(model, tensor);
  out.sources = SliceAxis(entry, axis, expert_count, ids);
  out.entry.shape[axis] = entry.shape[axis] / expert_count * ids.size();
  out.entry.bytes = 0;
  for (const SourceRange& range : out.sources) out.entry.bytes += range.bytes;
  out.expert_ids = ids;
  return out;
}

std::vector<SourceRange> SliceAxis(const TensorEntry& tensor, uint32_t axis, uint32_t expert_count,
                                   const ExpertIds& ids) {
  const uint64_t outer = Product(tensor.shape, 0, axis);
  if (outer == 0 || tensor.bytes == 0) return {};
  const uint64_t row = tensor.bytes / outer;  // all experts of one outer index
  const uint64_t slice = row / expert_count;
  std::vector<SourceRange> out;
  out.reserve(outer * ids.size());
  for (uint64_t i = 0; i < outer; ++i) {
    for (const uint32_t id : ids) {
      out.push_back(
          {.file = tensor.file, .offset = tensor.offset + i * row + id * slice, .bytes = slice});
    }
  }
  return out;
}

void LayOutSafetensors(OutputFile& file, const std::map<std::string, std::string>& metadata,
                       std::optional<uint64_t> start) {
  uint64_t residue = start.value_or(0);
  if (!start && !file.tensors.empty() && !file.tensors[0].sources.empty()) {
    // Source and output must agree modulo 4096 for OutputStream to share blocks.
    residue = file.tensors[0].sources[0].offset;
  }
  SafetensorsHeaderWriter writer(metadata);
  for (const OutputTensor& tensor : file.tensors) writer.Expect(tensor.entry);
  for (const OutputTensor& tensor : file.tensors) writer.Add(tensor.entry);
  file.prefix = std::move(writer).Finish(residue);
  file.size = file.prefix.size();
  for (OutputTensor& tensor : file.tensors) {
    tensor.entry.offset = file.size;
    file.size += tensor.entry.bytes;
  }
}

Result<std::vector<OutputFile>> SliceSafetensors(const MoeModel& model, const Plan& plan,
                                                 const SliceOptions& options) {
  if (model.checkpoint().names_only()) {
    return Error{Code::kNotFound, Cat(model.checkpoint().source().string(),
                                      ": expected the shards beside the index, found none")};
  }
  std::vector<PartContent> parts;
  if (options.parts.WantsTrunk()) parts.push_back({{Role::kTrunk, std::nullopt, "trunk", {}}, {}});
  for (ExpertPart& part : ExpertParts(plan, options)) parts.push_back({std::move(part), {}});

  std::vector<OutputFile> files;
  for (PartContent& part : parts) {
    SHARD_CHECK(FillPart(model, options.refit, part));
    const auto metadata = SafetensorsPartMetadata(model.Version(""), part.part, plan.layers);
    for (OutputFile& file : CutIntoFiles(std::move(part), options.max_part_size, metadata)) {
      files.push_back(std::move(file));
    }
  }
  return files;
}

}  // namespace moepack
