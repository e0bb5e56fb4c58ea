#include "libshard/pack/slice_gguf.h"

#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "libshard/base/text/text.h"
#include "libshard/format/gguf.h"
#include "libshard/format/gguf_set.h"
#include "libshard/pack/calibrated_tensors.h"
#include "libshard/pack/encode_rows.h"
#include "libshard/pack/refit_tensors.h"
#include "libshard/pack/slice.h"
#include "libshard/recipe/imatrix.h"

namespace moepack {
namespace {

constexpr uint64_t kMaxSplitFiles = 65535;  // split.count is a u16
constexpr std::string_view kExtension = ".gguf";

uint64_t ElementsOf(const std::vector<uint64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), uint64_t{1}, std::multiplies<>());
}

// A vector with one value per expert (a selection bias) is cut by value, so its rows have one
// value.
uint64_t RowValues(const GgufTensor& tensor) {
  return tensor.expert_count > 0 && tensor.shape.size() == 1 ? 1 : tensor.row_values();
}

// Each expert, and each head of an MLA matrix, has its own row of importance. 0 means that the
// tensor has one row for everything.
uint64_t RowsPerSlice(const GgufTensor& tensor, uint64_t row) {
  const bool sliced = tensor.expert_count > 0 || tensor.shape.size() > 2;
  return sliced ? tensor.elements() / tensor.shape[0] / row : 0;
}

Error CannotEncode(const GgufTensor& tensor, const quant::Format* type, std::string_view reason) {
  return Error{Code::kUnsupported, Cat("tensor ", Quoted(tensor.name), ": ", tensor.stored->name,
                                       " to ", type->name, ": ", reason)};
}

// Sets how the bytes are made. Name, shape and sources are already set.
Status SetEncoding(const GgufTensor& tensor, const quant::Format* type, OutputTensor& out) {
  out.entry.format = type;
  out.entry.dtype = type->name;
  const uint64_t row = RowValues(tensor);
  if (type->BytesFor(row) == std::nullopt) {
    return CannotEncode(
        tensor, type,
        Cat("expected rows of a multiple of ", type->block_values, " values, found ", row));
  }
  out.entry.bytes = *type->BytesFor(row) * (ElementsOf(out.entry.shape) / row);
  out.inspected = IsPlainFloat(type);
  if (!tensor.literal.empty() || (type == tensor.stored && tensor.reader == nullptr)) return Ok();
  if (tensor.reader == nullptr && tensor.stored->decode == nullptr)
    return CannotEncode(tensor, type, "expected a type that can be decoded, found another");
  if (type->encode == nullptr && !tensor.KeepsGrid(type))
    return CannotEncode(tensor, type, "expected a type that can be encoded, found another");
  // A type that ignores importance gets none: its bytes, and so the identity of the run, do not
  // depend on the matrix.
  const bool weighted = type->uses_importance && tensor.importance != nullptr;
  out.encoding = std::make_shared<const Encoding>(
      Encoding{.from = tensor.stored,
               .to = type,
               .row_values = row,
               .rows_per_slice = RowsPerSlice(tensor, row),
               .importance = weighted ? tensor.importance : nullptr,
               .reader = tensor.reader,
               .repack = tensor.KeepsGrid(type)});
  return Ok();
}

OutputTensor Named(const GgufTensor& tensor) {
  OutputTensor out;
  out.entry.name = tensor.name;
  out.entry.shape = tensor.shape;
  out.layer = tensor.layer;
  out.SetSourceName(tensor.source_tensor);
  return out;
}

// The ranges of the experts `ids`; each of the `expert_count` experts has equally many.
template <class Range>
std::vector<Range> RangesOf(const std::vector<Range>& ranges, uint32_t expert_count,
                            const ExpertIds& ids) {
  const size_t each = ranges.size() / expert_count;
  std::vector<Range> out;
  out.reserve(each * ids.size());
  for (const uint32_t id : ids) {
    const auto first = ranges.begin() + static_cast<std::ptrdiff_t>(id * each);
    out.insert(out.end(), first, first + static_cast<std::ptrdiff_t>(each));
  }
  return out;
}

// A whole tensor, made from the store of a calibration if that has it.
Result<OutputTensor> WholeOf(const CalibratedTensors* calibrated, const GgufTensor& tensor) {
  if (calibrated != nullptr) {
    SHARD_TRY(const std::optional<GgufTensor> stored,
              calibrated->Choose(tensor, tensor.type, std::nullopt));
    if (stored) return EncodeTensor(*stored, tensor.type);
  }
  return EncodeTensor(tensor, tensor.type);
}

// Builds the parts of a GGUF distribution.
class PartSlicer {
 public:
  PartSlicer(const GgufSlicing& input, const Plan& plan, const SliceOptions& options)
      : input_(input),
        plan_(plan),
        limit_(options.max_part_size),
        refit_(options.refit),
        calibrated_(options.calibrated) {}

  void AddHead(std::vector<OutputFile>& files) const {
    OutputFile head;
    head.path = "head/head.gguf";
    head.role = Role::kHead;
    LayOutGguf(head, input_.model.metadata, input_.alignment);
    files.push_back(std::move(head));
  }

  // Adds whole tensors: the trunk, or all routers.
  Status AddWhole(Role role, std::vector<OutputFile>& files) const {
    const bool trunk = role == Role::kTrunk;
    std::vector<OutputTensor> tensors;
    for (const GgufTensor& tensor : input_.model.tensors) {
      const bool router = tensor.part == Part::kRouter && tensor.expert_count > 0;
      if (trunk ? BelongsToExperts(tensor) : !router) continue;
      SHARD_TRY(OutputTensor whole, WholeOf(calibrated_, tensor));
      tensors.push_back(std::move(whole));
    }
    const std::string name(RoleName(role));
    AddFiles({role, std::nullopt, name, {}}, name, std::move(tensors), files);
    return Ok();
  }

  Status AddExperts(const ExpertPart& part, std::vector<OutputFile>& files) const {
    std::vector<OutputTensor> tensors;
    for (size_t i = 0; i < input_.model.tensors.size(); ++i) {
      const GgufTensor& tensor = input_.model.tensors[i];
      if (!BelongsToExperts(tensor)) continue;
      const ExpertIds& ids = IdsOf(part.experts_by_layer, *tensor.layer);
      if (ids.empty()) continue;
      SHARD_TRY(OutputTensor cut, Cut(tensor, TypeIn(part.role, i), part, ids));
      tensors.push_back(std::move(cut));
    }
    if (!tensors.empty()) AddFiles(part, "experts", std::move(tensors), files);
    return Ok();
  }

 private:
  GgufMetadata Metadata(const ExpertPart& part) const {
    return GgufPartMetadata({input_.model.architecture(), input_.version}, part, plan_.layers);
  }

  Result<OutputTensor> Cut(const GgufTensor& tensor, const quant::Format* type,
                           const ExpertPart& part, const ExpertIds& ids) const {
    const ExpertIds encoded = EncodedForNode(tensor, part, ids);
    if (encoded.empty() && refit_ != nullptr && part.role == Role::kGroup) {
      SHARD_TRY(const GgufTensor weighed, InGroup(tensor, *part.group));
      SHARD_TRY(std::optional<OutputTensor> made, refit_->Make(weighed, type, *part.group, ids));
      if (made) return *std::move(made);
    }
    if (calibrated_ != nullptr) {
      SHARD_TRY(const std::optional<GgufTensor> stored,
                calibrated_->Choose(tensor, type, part.group));
      SHARD_TRY(OutputTensor made, EncodeExperts(stored ? *stored : tensor, type, ids));
      made.derived = encoded;
      return made;
    }
    return EncodeExperts(tensor, type, ids);
  }

  // Of these experts those that a refit changed and a calibration encoded for the group's node.
  ExpertIds EncodedForNode(const GgufTensor& tensor, const ExpertPart& part,
                           const ExpertIds& ids) const {
    if (calibrated_ == nullptr || part.role != Role::kGroup) return {};
    const ExpertIds refitted = calibrated_->RefittedIn(*part.group, tensor);
    return Difference(ids, Difference(ids, refitted));
  }

  // The tensor with the importance that applies in the group, if the group's experts have their
  // own.
  Result<GgufTensor> InGroup(const GgufTensor& tensor, uint32_t group) const {
    GgufTensor weighed = tensor;
    const RefitOutcome* own = refit_->record().Find(*tensor.layer, group);
    if (input_.imatrix == nullptr || own == nullptr) return weighed;
    SHARD_TRY(weighed.importance,
              GroupImportance(*input_.imatrix, tensor, {group, own->expert_ids}));
    return weighed;
  }

  const quant::Format* TypeIn(Role role, size_t tensor) const {
    const bool own = role == Role::kOverlay && tensor < input_.overlay_types.size();
    const quant::Format* type = own ? input_.overlay_types[tensor] : nullptr;
    return type != nullptr ? type : input_.model.tensors[tensor].type;
  }

  void AddFiles(const ExpertPart& part, const std::string& stem, std::vector<OutputTensor> tensors,
                std::vector<OutputFile>& files) const {
    const ContainerCost cost = GgufCost(Metadata(part), input_.alignment);
    std::vector<std::vector<OutputTensor>> lists = CutBySize(std::move(tensors), limit_, cost);
    const size_t count = lists.size();
    for (size_t i = 0; i < count; ++i) {
      OutputFile file;
      file.path = PartFileName({part.directory, stem, kExtension}, i + 1, count);
      file.role = part.role;
      file.group = part.group;
      file.tensors = std::move(lists[i]);
      GgufMetadata metadata = Metadata(part);
      if (part.role == Role::kTrunk) metadata = GgufTrunkMetadata(std::move(metadata), i);
      LayOutGguf(file, metadata, input_.alignment);
      files.push_back(std::move(file));
    }
  }

  const GgufSlicing& input_;
  const Plan& plan_;
  uint64_t limit_;
  const RefitTensors* refit_;
  const CalibratedTensors* calibrated_;
};

}  // namespace

bool BelongsToExperts(const GgufTensor& tensor) {
  return tensor.expert_count > 0 && (tensor.part == Part::kExpert || tensor.part == Part::kRouter);
}

GgufMetadata GgufTrunkMetadata(GgufMetadata part, size_t number) {
  // File 0 of a node's set is the head, so the parts of the trunk count from 1.
  part.Set(kSplitNoKey, GgufValue::U16(static_cast<uint16_t>(number + 1)));
  return part;
}

GgufMetadata GgufPartMetadata(const GgufPartModel& model, const ExpertPart& part,
                              const LayerCounts& layers) {
  GgufMetadata out;
  out.Set("general.architecture", GgufValue::String(model.architecture));
  out.Set("moepack.model", GgufValue::String(model.version));
  out.Set("moepack.role", GgufValue::String(RoleName(part.role)));
  if (part.group) out.Set("moepack.group", GgufValue::U32(*part.group));
  if (part.role == Role::kOverlay) out.Set("moepack.overlay", GgufValue::String(part.overlay));
  if (!part.experts_by_layer.empty()) {
    out.Set("moepack.experts",
            GgufValue::String(LayerExpertsToJson(part.experts_by_layer, layers).dump()));
  }
  return out;
}

ContainerCost GgufCost(const GgufMetadata& metadata, uint64_t alignment) {
  constexpr uint64_t kPerTensor = 8 + 4 + 4 * 8 + 4 + 8;  // length, dimensions, type, offset
  // kSpare leaves room for the three split keys.
  constexpr uint64_t kSpare = 256;
  return {.alignment = alignment,
          .per_tensor = kPerTensor,
          .per_file = BuildGgufHeader(metadata, {}, 1).size() + kSpare};
}

Result<OutputTensor> EncodeTensor(const GgufTensor& tensor, const quant::Format* type) {
  OutputTensor out = Named(tensor);
  out.sources = tensor.sources;
  out.rows = tensor.rows;
  if (!tensor.literal.empty()) {
    out.literal = std::make_shared<const std::string>(tensor.literal);
  }
  if (tensor.expert_count > 0) {
    out.expert_ids.resize(tensor.expert_count);
    std::iota(out.expert_ids.begin(), out.expert_ids.end(), 0u);
  }
  SHARD_CHECK(SetEncoding(tensor, type, out));
  return out;
}

Result<OutputTensor> EncodeExperts(const GgufTensor& tensor, const quant::Format* type,
                                   const ExpertIds& ids) {
  OutputTensor out = Named(tensor);
  out.sources = RangesOf(tensor.sources, tensor.expert_count, ids);
  out.rows = RangesOf(tensor.rows, tensor.expert_count, ids);
  out.entry.shape[0] = ids.size();
  out.expert_ids = ids;
  SHARD_CHECK(SetEncoding(tensor, type, out));
  return out;
}

Plan PlanFor(const GgufModel& model, const Plan& plan) {
  std::set<uint32_t> there;
  for (const GgufTensor& tensor : model.tensors) {
    if (tensor.part == Part::kExpert) there.insert(*tensor.layer);
  }
  const auto absent = [&](const auto& entry) { return !there.contains(entry.first); };
  Plan out = plan;
  std::erase_if(out.layers, absent);
  std::erase_if(out.top_k, absent);
  std::erase_if(out.remainder, absent);
  for (OverlayPlan& overlay : out.overlays) KeepLayers(out.layers, overlay);
  for (GroupPlan& group : out.groups) {
    std::erase_if(group.owned, absent);
    std::erase_if(group.fill, absent);
  }
  return out;
}

Result<std::vector<OutputFile>> SliceGguf(const GgufSlicing& input, const Plan& plan,
                                          const SliceOptions& options) {
  std::vector<OutputFile> files;
  const PartSlicer slicer(input, plan, options);
  if (options.parts.WantsTrunk()) {
    slicer.AddHead(files);
    SHARD_CHECK(slicer.AddWhole(Role::kTrunk, files));
    SHARD_CHECK(slicer.AddWhole(Role::kRouters, files));
  }
  for (const ExpertPart& part : ExpertParts(plan, options)) {
    SHARD_CHECK(slicer.AddExperts(part, files));
  }
  return files;
}

void SetSplitKeys(uint64_t number, uint64_t count, uint64_t tensors, GgufMetadata& metadata) {
  metadata.Set(kSplitNoKey, GgufValue::U16(static_cast<uint16_t>(number)));
  metadata.Set(kSplitCountKey, GgufValue::U16(static_cast<uint16_t>(count)));
  metadata.Set(kSplitTensorsKey, GgufValue::I32(static_cast<int32_t>(tensors)));
}

Result<std::vector<OutputFile>> WholeGguf(const GgufModel& model, const WholeGgufOptions& options) {
  std::vector<OutputTensor> tensors;
  for (const GgufTensor& tensor : model.tensors) {
    SHARD_TRY(OutputTensor whole, WholeOf(options.calibrated, tensor));
    tensors.push_back(std::move(whole));
  }
  std::vector<std::vector<OutputTensor>> lists = CutBySize(
      std::move(tensors), options.max_part_size, GgufCost(model.metadata, options.alignment));
  const size_t count = lists.size();
  if (count > kMaxSplitFiles) {
    return Error{Code::kUnsupported,
                 Cat("--max-part-size: expected at most ", kMaxSplitFiles, " files, found ", count),
                 "allow larger parts"};
  }
  std::vector<OutputFile> files(count);
  for (size_t i = 0; i < count; ++i) {
    files[i].path = PartFileName({"", options.stem, kExtension}, i + 1, count);
    files[i].tensors = std::move(lists[i]);
    // Only the first file has the model's keys, as llama-gguf-split writes a set.
    GgufMetadata metadata = i == 0 ? model.metadata : GgufMetadata();
    if (i > 0) metadata.Set("general.architecture", GgufValue::String(model.architecture()));
    if (count > 1) SetSplitKeys(i, count, model.tensors.size(), metadata);
    LayOutGguf(files[i], metadata, options.alignment);
  }
  return files;
}

}  // namespace moepack
