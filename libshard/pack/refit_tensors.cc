#include "libshard/pack/refit_tensors.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <set>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "libshard/model/family.h"
#include "libshard/model/gguf_experts.h"
#include "libshard/pack/encode_rows.h"
#include "libshard/pack/slice_gguf.h"

namespace moepack {
namespace {

std::string RefitFileOf(const RefitStore& store) {
  return (store.directory() / kRefitFile).string();
}

Error Differs(const RefitStore& store, const char* what, const std::string& expected,
              const std::string& found, const char* hint) {
  return {Code::kMismatch,
          Cat(RefitFileOf(store), ": ", what, ": expected ", expected, ", found ", found), hint};
}

// What was accepted must belong to the plan's groups, and may only change what they are allowed to
// change.
Status CheckOutcome(const RefitStore& store, const Plan& plan, const RefitOutcome& outcome) {
  const std::string place = Cat("layer ", outcome.layer, ", group ", outcome.group);
  if (outcome.group >= plan.groups.size() || !plan.layers.contains(outcome.layer))
    return Error{Code::kMismatch, Cat(RefitFileOf(store), ": ", place,
                                      ": expected a layer and group of the plan, found others")};
  const ExpertIds slots = RefitSlots(plan, outcome.group, outcome.layer);
  if (Difference(outcome.expert_ids, slots).empty()) return Ok();
  return Error{Code::kMismatch,
               Cat(RefitFileOf(store), ": ", place, ": experts: expected some of ",
                   Quoted(FormatIds(slots)), ", found ", Quoted(FormatIds(outcome.expert_ids)))};
}

Status CheckWhole(const RefitStore& store, const MoeModel& model, const Plan& plan) {
  for (const auto& [layer, count] : plan.layers) {
    const MoeLayer* known = model.FindLayer(layer);
    // Blocks for multi-token prediction are not run, so no refit has them.
    if (known == nullptr || known->mtp) continue;
    for (uint32_t group = 0; group < plan.groups.size(); ++group) {
      if (store.part() && !Contains(store.part()->groups, group)) continue;
      if (store.record().Find(layer, group) != nullptr) continue;
      return Error{Code::kCorrupt,
                   Cat(RefitFileOf(store), ": layer ", layer, ", group ", group,
                       ": expected what became of it, found none"),
                   "the refit was stopped: run the same command again to resume it"};
    }
  }
  return Ok();
}

Status CheckFits(const RefitStore& store, const MoeModel& model, const Plan& plan) {
  const RefitRecord& record = store.record();
  const std::string version = model.Version(""), digest = RefitPlanDigest(plan);
  if (record.model != version)
    return Differs(store, "model", Cat(version, " (the source given)"), record.model,
                   "the refit was made for another model");
  if (record.plan != digest)
    return Differs(store, "plan", Cat(digest, " (the plan given)"), record.plan,
                   "the refit was made for other groups, or another overlay");
  for (const RefitOutcome& outcome : record.outcomes)
    SHARD_CHECK(CheckOutcome(store, plan, outcome));
  return CheckWhole(store, model, plan);
}

// A part of a refit has only some groups, and others cannot be written with it.
Status CheckHasGroups(const RefitStore& store, const Plan& plan, const PartSelection& parts) {
  if (!store.part()) return Ok();
  const ExpertIds& there = store.part()->groups;
  ExpertIds written;
  for (uint32_t group = 0; group < plan.groups.size(); ++group)
    if (parts.WantsGroup(group)) written.push_back(group);
  if (Difference(written, there).empty()) return Ok();
  std::vector<std::string> words;
  for (const uint32_t group : there) words.push_back(Cat("group:", group));
  return Error{Code::kInvalidArgument,
               Cat(Shown(store.directory().string()), ": refit: expected ", GroupsText(written),
                   ", which this run writes, found ", PartGroupsText(store.part())),
               Cat("with --only ", Join(words, ","), " this store is enough; `moepack join` makes ",
                   "one store of all parts")};
}

}  // namespace

const RefitTensors::Place* RefitTensors::Find(std::optional<uint32_t> layer, uint32_t group) const {
  if (!layer) return nullptr;
  const auto found = places_.find({*layer, group});
  return found == places_.end() ? nullptr : &found->second;
}

Status RefitTensors::AddPlaces(const RefitStore& store, uint32_t first_file) {
  std::vector<const RefitOutcome*> accepted;
  for (const RefitOutcome& outcome : store.record().outcomes)
    if (outcome.accepted) accepted.push_back(&outcome);
  const auto tree = std::make_shared<const LocalTree>(store.directory());
  std::vector<Place> places(accepted.size());
  files_.resize(accepted.size());
  // Check reads every file whole.
  SHARD_CHECK(ParallelFor(accepted.size(), ThreadsForFiles(0), [&](size_t i) -> Status {
    const RefitOutcome& outcome = *accepted[i];
    SHARD_TRY(std::optional<RefittedFile> checked, store.Check(outcome.layer, outcome.group));
    const std::string name = RefittedFileName(outcome.layer, outcome.group);
    SHARD_TRY(const ByteSourcePtr source, tree->Open(name));
    files_[i] = {.path = source->name(),
                 .name = name,
                 .size = checked->size,
                 .data_start = checked->data_start,
                 .header_sha256 = outcome.sha256,
                 .identity = source->identity(),
                 .tree = tree};
    places[i] = {*std::move(checked), first_file + static_cast<uint32_t>(i), source->name()};
    return Ok();
  }));
  for (size_t i = 0; i < accepted.size(); ++i)
    places_[{accepted[i]->layer, accepted[i]->group}] = std::move(places[i]);
  return Ok();
}

// An array that no tensor of the model uses would be silently lost.
Status RefitTensors::CheckArrays(const MoeModel& model) const {
  std::map<uint32_t, std::set<std::string_view>> taken;
  for (const ModelTensor& tensor : model.tensors()) {
    if (!tensor.layer || (!tensor.expert && !tensor.axis)) continue;
    for (const std::string_view name : NamesOf(*tensor.rule, tensor.leaf))
      taken[*tensor.layer].insert(name);
    // Packed codes have leaves of their own, and the gate may be in them.
    const std::string_view role = tensor.rule->role;
    if (role == "gate" || role == "gate_up") taken[*tensor.layer].insert("gate");
  }
  for (const auto& [key, place] : places_) {
    for (const auto& [name, offset] : place.file.offsets) {
      // Every model has the other weights, if not by these names. The gate is absent in some
      // families.
      const bool weight = !name.ends_with("bias") && name != "gate";
      if (weight || taken[key.first].contains(name)) continue;
      return Error{Code::kMismatch, Cat(place.path, ": tensor ", Quoted(name),
                                        ": expected none, as the model has none, found one")};
    }
  }
  return Ok();
}

Result<RefitTensors> RefitTensors::Of(const RefitStore& store, const MoeModel& model,
                                      const Plan& plan, const PartSelection& parts) {
  SHARD_CHECK(CheckFits(store, model, plan));
  SHARD_CHECK(CheckHasGroups(store, plan, parts));
  RefitTensors out;
  out.record_ = store.record();
  SHARD_CHECK(out.AddPlaces(store, static_cast<uint32_t>(model.checkpoint().files().size())));
  SHARD_CHECK(out.CheckArrays(model));
  return out;
}

RefitTensors RefitTensors::Stated(RefitRecord record) {
  RefitTensors out;
  out.stated_ = true;
  for (const RefitOutcome& outcome : record.outcomes) {
    if (!outcome.accepted) continue;
    Place& place = out.places_[{outcome.layer, outcome.group}];
    place.path = kRefitFile;
    place.file.expert_ids = outcome.expert_ids;
    for (const std::string& name : outcome.arrays) place.file.offsets[name] = 0;
  }
  out.record_ = std::move(record);
  return out;
}

// How a bundle's tensor is made from a refit's arrays: the inverse of what conversion does with the
// layouts of checkpoints (libshard/families).

namespace {

// Ranges of rows are distinguished by their order (pack_units.cc). Bit 62 sets those of a refit
// apart from those of a conversion (OrderOf); recoded ones have bit 63 (encode_rows.cc). Layers and
// experts have 12 and 16 bits, as many as limits.h allows.
uint64_t RefitOrder(uint32_t group, uint32_t layer, std::string_view array, uint32_t expert) {
  const auto& arrays = RefittedArrays();
  const auto at = std::find_if(arrays.begin(), arrays.end(),
                               [&](const RefittedArray& known) { return known.name == array; });
  const auto number = static_cast<uint64_t>(at - arrays.begin());
  return uint64_t{1} << 62 | uint64_t{group} << 36 | uint64_t{layer} << 24 | number << 16 | expert;
}

ExpertIds Intersection(const ExpertIds& a, const ExpertIds& b) {
  ExpertIds out;
  std::set_intersection(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(out));
  return out;
}

// Rows and columns of one expert's share of an array. A vector is a column, so that the values of
// two can be interleaved like rows.
std::pair<uint64_t, uint64_t> SizeOf(const RefittedFile& file, std::string_view array) {
  if (array == "gate" || array == "up") return {file.width, file.hidden};
  if (array == "down") return {file.hidden, file.width};
  if (array == "router") return {1, file.router_width};
  if (array == "gate_bias" || array == "up_bias") return {file.width, 1};
  return {array == "down_bias" ? file.hidden : 1, 1};
}

RowReaderPtr Interleaved(RowReaderPtr halves) {
  const uint64_t rows = halves->rows();
  std::vector<uint64_t> order;
  order.reserve(rows);
  for (uint64_t i = 0; i < rows / 2; ++i) {
    order.push_back(i);
    order.push_back(rows / 2 + i);
  }
  return SelectedRows(std::move(halves), std::move(order), rows);
}

RowReaderPtr Transposed(RowReaderPtr rows) {
  const Window all{0, rows->rows(), 0, rows->row_values()};
  return TransposedRows(std::move(rows), all);
}

RowReaderPtr Joined(std::vector<RowReaderPtr> parts) {
  return parts.size() == 1 ? parts[0] : StackedRows(std::move(parts));
}

// The values of one expert in the source's tensor, as rows like those of `like`.
RowReaderPtr SourceRows(const MoeModel& model, const ModelTensor& tensor, uint32_t expert,
                        const RowReader& like) {
  const TensorEntry& entry = model.entry(tensor);
  const uint64_t slab = *entry.format->BytesFor(like.rows() * like.row_values());
  return PlainRows(entry.format, entry.file, entry.offset + expert * slab, like.rows(),
                   like.row_values());
}

// The same for a tensor with experts along axis 0 in a GGUF.
RowReaderPtr GgufRows(const GgufTensor& tensor, uint32_t expert, const RowReader& like) {
  const uint64_t values = like.row_values();
  if (tensor.reader != nullptr) {
    std::vector<uint64_t> rows;
    const size_t each = tensor.rows.size() / tensor.expert_count;
    for (size_t i = 0; i < each; ++i) {
      const RowRange& range = tensor.rows[expert * each + i];
      for (uint64_t row = 0; row < range.count; ++row) rows.push_back(range.first + row);
    }
    return SelectedRows(tensor.reader, std::move(rows), tensor.reader->rows());
  }
  const uint64_t row_bytes = *tensor.stored->BytesFor(values);
  const size_t each = tensor.sources.size() / tensor.expert_count;
  std::vector<RowReaderPtr> rows;
  for (size_t i = 0; i < each; ++i) {
    const SourceRange& range = tensor.sources[expert * each + i];
    if (each == 1) return PlainRows(tensor.stored, range.file, range.offset, like.rows(), values);
    for (uint64_t at = 0; at < range.bytes; at += row_bytes)
      rows.push_back(PlainRows(tensor.stored, range.file, range.offset + at, 1, values));
  }
  return Joined(std::move(rows));
}

uint64_t ElementsPerExpert(const ModelTensor& tensor, const TensorEntry& entry, uint64_t experts) {
  return tensor.axis ? entry.Elements() / experts : entry.Elements();
}

Error WrongSize(const std::string& path, std::string_view array, const TensorEntry& entry,
                const RowReader& rows) {
  return {Code::kMismatch, Cat(path, ": tensor ", Quoted(array), ": expected experts that fit ",
                               Quoted(entry.name), " of shape ", FormatShape(entry.shape),
                               ", found ", rows.rows(), " rows of ", rows.row_values(), " values")};
}

Error NotPlain(const MoeModel& model, const TensorEntry& entry) {
  return {
      Code::kUnsupported,
      Cat(model.checkpoint().files()[entry.file].path.string(), ": tensor ", Quoted(entry.name),
          ": expected F32, F16 or BF16 to put a refit in its place, found ", Shown(entry.dtype)),
      "write GGUF (--format gguf, or --quantize with a recipe): a refit of a quantized source is "
      "encoded again there"};
}

// Whether the values of an expert are contiguous: all dimensions before its axis are 1.
bool IsStacked(const std::vector<uint64_t>& shape, uint32_t axis) {
  return std::all_of(shape.begin(),
                     shape.begin() + std::min<std::ptrdiff_t>(axis, std::ssize(shape)),
                     [](uint64_t size) { return size == 1; });
}

Error NotStacked(const MoeModel& model, const TensorEntry& entry) {
  return {Code::kUnsupported,
          Cat(model.checkpoint().files()[entry.file].path.string(), ": tensor ", Quoted(entry.name),
              ": expected one expert after another along the first axis, found shape ",
              FormatShape(entry.shape)),
          "a refit of such a model cannot be written as safetensors"};
}

}  // namespace

RefitTensors::ArrayNames RefitTensors::NamesOf(const TensorRule& rule, std::string_view matched) {
  const std::string_view role = rule.role, leaf = LeafOf(rule, matched);
  const bool weight = leaf == "weight" || leaf.empty();
  if (!weight && leaf != "bias") return {};
  if (role == "gate") return {weight ? "gate" : "gate_bias"};
  if (role == "up") return {weight ? "up" : "up_bias"};
  if (role == "down") return {weight ? "down" : "down_bias"};
  if (role == "router") return {weight ? "router" : "router_bias"};
  if (role == "selection_bias") return {"selection_bias"};
  // In a fused tensor gate's rows come first; Interleaved changes that where the family does.
  if (role != "gate_up") return {};
  return weight ? ArrayNames{"gate", "up"} : ArrayNames{"gate_bias", "up_bias"};
}

bool RefitTensors::Changes(const RefitOutcome& outcome, const ModelTensor& tensor) {
  const ArrayNames names = NamesOf(*tensor.rule, tensor.leaf);
  return !names.empty() &&
         std::find(outcome.arrays.begin(), outcome.arrays.end(), names[0]) != outcome.arrays.end();
}

// False if the source's values stay: biases may be left alone.
Result<bool> RefitTensors::HasArrays(const Place& place, const ArrayNames& names) {
  const auto there = [&](std::string_view name) {
    return place.file.offsets.find(name) != place.file.offsets.end();
  };
  if (std::all_of(names.begin(), names.end(), there)) return true;
  const bool bias = names[0].ends_with("bias");
  if (bias && std::none_of(names.begin(), names.end(), there)) return false;
  const auto absent = std::find_if_not(names.begin(), names.end(), there);
  return Error{Code::kMismatch, Cat(place.path, ": tensor ", Quoted(*absent),
                                    ": expected as the model has one, found none")};
}

RowReaderPtr RefitTensors::ExpertRows(const Place& place, const ArrayNames& names,
                                      uint32_t expert) {
  const ExpertIds& experts = place.file.expert_ids;
  const auto index = static_cast<uint64_t>(
      std::lower_bound(experts.begin(), experts.end(), expert) - experts.begin());
  std::vector<RowReaderPtr> parts;
  for (const std::string_view name : names) {
    const auto [rows, columns] = SizeOf(place.file, name);
    const uint64_t offset = place.file.offsets.find(name)->second;
    parts.push_back(PlainRows(quant::FindFormat("f32"), place.number,
                              offset + index * rows * columns * sizeof(float), rows, columns));
  }
  return Joined(std::move(parts));
}

Result<RowReaderPtr> RefitTensors::TensorRows(const MoeModel& model, const ModelTensor& tensor,
                                              const Place& place, const ExpertIds& ids) {
  const TensorEntry& entry = model.entry(tensor);
  const ArrayNames names = NamesOf(*tensor.rule, tensor.leaf);
  const ConfigFacts& facts = model.family().facts;
  const bool matrix = !names[0].ends_with("bias") && names[0] != "router";
  const bool transposed =
      matrix && tensor.packed_expert() && facts.transposed && tensor.leaf.empty();
  const uint32_t count = model.FindLayer(tensor.layer)->expert_count;
  std::vector<RowReaderPtr> parts;
  for (const uint32_t id : ids) {
    const bool refitted = Contains(place.file.expert_ids, id);
    // Where the source stays, these rows only have the shape, and are replaced below.
    RowReaderPtr rows = ExpertRows(place, names, refitted ? id : place.file.expert_ids[0]);
    if (names.size() == 2 && facts.interleaved) rows = Interleaved(std::move(rows));
    if (transposed) rows = Transposed(std::move(rows));
    const bool fits =
        rows->rows() * rows->row_values() == ElementsPerExpert(tensor, entry, count) &&
        (!matrix || entry.shape.back() == rows->row_values());
    if (!fits) return WrongSize(place.path, names[0], entry, *rows);
    if (!refitted) rows = SourceRows(model, tensor, id, *rows);
    parts.push_back(std::move(rows));
  }
  return Joined(std::move(parts));
}

Result<std::optional<OutputTensor>> RefitTensors::Make(const MoeModel& model,
                                                       const ModelTensor& tensor, uint32_t group,
                                                       const ExpertIds& ids) const {
  const std::optional<OutputTensor> none;
  const Place* place = Find(tensor.layer, group);
  const ArrayNames names = NamesOf(*tensor.rule, tensor.leaf);
  if (place == nullptr) return none;
  const TensorEntry& entry = model.entry(tensor);
  if (tensor.part == Part::kExpert && UseOfLeaf(tensor.leaf) == LeafUse::kPacked)
    return NotPlain(model, entry);
  if (names.empty() || (!tensor.expert && !tensor.axis)) return none;
  const ExpertIds held = tensor.expert ? ExpertIds{*tensor.expert} : ids;
  const ExpertIds derived = Intersection(held, place->file.expert_ids);
  if (derived.empty()) return none;
  SHARD_TRY(const bool there, HasArrays(*place, names));
  if (!there) return none;
  if (entry.format == nullptr || !IsPlainFloat(entry.format)) return NotPlain(model, entry);
  if (tensor.rule->folded || !IsStacked(entry.shape, tensor.axis.value_or(0)))
    return NotStacked(model, entry);
  OutputTensor out = WholeTensor(model, tensor);
  if (tensor.axis) {
    SHARD_TRY(out, CutTensor(model, tensor, held));
  }
  out.derived = derived;
  out.sources.clear();
  if (stated_) return std::optional(std::move(out));
  SHARD_TRY(RowReaderPtr rows, TensorRows(model, tensor, *place, held));
  out.rows = {{0, rows->rows(), RefitOrder(group, *tensor.layer, names[0], held[0])}};
  out.encoding = std::make_shared<const Encoding>(Encoding{.from = quant::FindFormat("f32"),
                                                           .to = entry.format,
                                                           .row_values = rows->row_values(),
                                                           .rows_per_slice = 0,
                                                           .importance = nullptr,
                                                           .reader = std::move(rows)});
  return std::optional(std::move(out));
}

Result<std::optional<OutputTensor>> RefitTensors::Make(const GgufTensor& tensor,
                                                       const quant::Format* type, uint32_t group,
                                                       const ExpertIds& ids) const {
  const std::optional<OutputTensor> none;
  const Place* place = Find(tensor.layer, group);
  if (place == nullptr || tensor.expert_count == 0) return none;
  const TensorClass found = FamilyMatcher(GgufFamily(), 0).Classify(tensor.name);
  const ArrayNames names = found.rule == nullptr ? ArrayNames() : NamesOf(*found.rule, found.leaf);
  const ExpertIds derived = Intersection(ids, place->file.expert_ids);
  if (names.empty() || derived.empty()) return none;
  SHARD_TRY(const bool there, HasArrays(*place, names));
  if (!there) return none;
  GgufTensor made = tensor;
  if (!stated_) {
    // Readers count rows in the whole tensor, as importance does, so this one has all experts of
    // the layer; those that are not in `ids` are never read.
    std::vector<RowReaderPtr> parts;
    for (uint32_t id = 0; id < tensor.expert_count; ++id) {
      const bool refitted = Contains(place->file.expert_ids, id);
      // As in TensorRows, rows that are not refitted only have the shape.
      RowReaderPtr rows = ExpertRows(*place, names, refitted ? id : place->file.expert_ids[0]);
      // A bias of a projection is one row in a GGUF.
      if (rows->row_values() == 1 && rows->rows() > 1) rows = Transposed(std::move(rows));
      if (rows->rows() * rows->row_values() * tensor.expert_count != tensor.elements())
        return Error{Code::kMismatch,
                     Cat(place->path, ": tensor ", Quoted(names[0]), ": expected experts that fit ",
                         Quoted(tensor.name), " of shape ", FormatShape(tensor.shape), ", found ",
                         rows->rows(), " rows of ", rows->row_values(), " values")};
      if (!refitted && Contains(ids, id)) rows = GgufRows(tensor, id, *rows);
      parts.push_back(std::move(rows));
    }
    made.sources.clear();
    made.rows.clear();
    // Refitted values are not on the source's grid.
    made.repack = false;
    made.stored = quant::FindFormat("f32");
    const uint64_t each = parts[0]->rows();
    for (uint32_t id = 0; id < tensor.expert_count; ++id)
      made.rows.push_back({id * each, each, RefitOrder(group, *tensor.layer, names[0], id)});
    made.reader = Joined(std::move(parts));
  }
  SHARD_TRY(OutputTensor out, EncodeExperts(made, type, ids));
  out.derived = derived;
  return std::optional(std::move(out));
}

}  // namespace moepack
