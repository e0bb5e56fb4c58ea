#include "libshard/pack/refit_tensors.h"

#include <algorithm>
#include <set>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

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
                                      const Plan& plan) {
  SHARD_CHECK(CheckFits(store, model, plan));
  RefitTensors out;
  out.record_ = store.record();
  SHARD_CHECK(out.AddPlaces(store, static_cast<uint32_t>(model.checkpoint().files().size())));
  SHARD_CHECK(out.CheckArrays(model));
  return out;
}

RefitTensors RefitTensors::Promised(RefitRecord record) {
  RefitTensors out;
  out.promised_ = true;
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

}  // namespace moepack
