// Rules that need the source: each of its tensors must be where the plan says, and every asset must
// be a copy.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <unordered_map>

#include "libshard/base/text/text.h"
#include "libshard/pack/refit_tensors.h"
#include "manifest/verify/verify_source_rules.h"
#include "manifest/write/assets.h"

namespace moepack::manifest {

namespace fs = std::filesystem;

namespace {

// Checks the tensors of bundles against those of the model.
class Matcher {
 public:
  Matcher(const Manifest& manifest, const MoeModel& model, Findings& findings)
      : manifest_(manifest), model_(model), findings_("source-tensors", findings) {}

  // Returns the geometry of one tensor; without a file if the source has no such tensor.
  SourceSlices Match(const BundleRecord& bundle, const TensorRecord& tensor,
                     const std::vector<ByteSourcePtr>& shards) {
    const std::string& name = tensor.source.empty() ? tensor.name : tensor.source;
    const TensorEntry* entry = model_.checkpoint().Find(name);
    if (entry == nullptr) {
      findings_.Error(Cat("tensor: expected one of the source, found ", Quoted(name)), bundle.file,
                      tensor.name);
      return {};
    }
    const auto index = static_cast<size_t>(entry - model_.checkpoint().tensors().data());
    const PartKey part = PartOf(bundle);
    holders_[part][index] += 1;
    const ModelTensor& known = model_.tensors()[index];
    const ExpertIds ids = ExpectedIds(known, part);
    if (!SameTensor(bundle, tensor, known, ids)) return {};
    SourceSlices slices = Geometry(known, ids, shards);
    // The rule refit-derived decides whether anything here may be derived.
    slices.derived = IsRefitted(part, known) ? tensor.derived.ids() : ExpertIds();
    if (!slices.derived.empty() && slices.derived == tensor.expert_ids) slices.file = nullptr;
    return slices;
  }

  // Checks that every tensor is once in each part that should hold it, and in no other.
  void CheckPlaces() {
    for (const auto& [part, counts] : holders_) {
      for (size_t index = 0; index < model_.tensors().size(); ++index) {
        const bool expected = Belongs(model_.tensors()[index], part);
        const auto found = counts.find(index);
        const uint32_t count = found == counts.end() ? 0 : found->second;
        if (count == (expected ? 1 : 0)) continue;
        findings_.Error(Cat(PartText(part), ": expected ", expected ? "once" : "elsewhere",
                            ", found ", Plural(count, "time")),
                        "", model_.entry(model_.tensors()[index]).name);
      }
    }
  }

  // Notes a listed part, so that one without any tensors is compared as well.
  void AddPart(const BundleRecord& bundle) { holders_[PartOf(bundle)]; }

 private:
  uint32_t ExpertsOf(const ModelTensor& tensor) const {
    const MoeLayer* layer = model_.FindLayer(tensor.layer);
    return layer == nullptr ? 0 : layer->expert_count;
  }

  // Returns the ids of `tensor` that a part should hold; empty for tensors without an expert axis
  // or id.
  ExpertIds ExpectedIds(const ModelTensor& tensor, const PartKey& part) const {
    if (IsRouterRows(tensor, part)) return PartExperts(manifest_.plan, part, *tensor.layer);
    if (tensor.part != Part::kExpert || !tensor.layer) return {};
    const ExpertIds ids = PartExperts(manifest_.plan, part, *tensor.layer);
    if (!tensor.expert) return tensor.axis ? ids : ExpertIds();
    const uint32_t expert = *tensor.expert;
    return Contains(ids, expert) ? ExpertIds{expert} : ExpertIds();
  }

  // Whether a refit may have changed the tensor in this part.
  bool IsRefitted(const PartKey& part, const ModelTensor& tensor) const {
    if (!manifest_.refit || part.role != Role::kGroup || !tensor.layer) return false;
    const RefitOutcome* outcome = manifest_.refit->Find(*tensor.layer, *part.group);
    return outcome != nullptr && outcome->accepted;
  }

  // A refitted group has its own router rows: those that the refit changed.
  bool IsRouterRows(const ModelTensor& tensor, const PartKey& part) const {
    if (tensor.part != Part::kRouter || !tensor.axis || !IsRefitted(part, tensor)) return false;
    return RefitTensors::Changes(*manifest_.refit->Find(*tensor.layer, *part.group), tensor);
  }

  bool Belongs(const ModelTensor& tensor, const PartKey& part) const {
    if (IsRouterRows(tensor, part)) return true;
    if (tensor.part != Part::kExpert) return part.role == Role::kTrunk;
    if (!tensor.layer) return false;
    const ExpertIds ids = PartExperts(manifest_.plan, part, *tensor.layer);
    return tensor.expert ? Contains(ids, *tensor.expert) : !ids.empty();
  }

  bool SameTensor(const BundleRecord& bundle, const TensorRecord& tensor, const ModelTensor& known,
                  const ExpertIds& ids) {
    const TensorEntry& entry = model_.entry(known);
    std::vector<uint64_t> shape = entry.shape;
    const uint32_t expert_count = ExpertsOf(known);
    const bool router = known.part == Part::kRouter && !ids.empty();
    if ((known.packed_expert() || router) && known.axis && expert_count != 0) {
      uint64_t& axis = shape[*known.axis];
      axis = axis / expert_count * ids.size();
    }
    const std::string expected = Cat(entry.dtype, " ", FormatShape(shape), ", ",
                                     LayerText(known.layer), ", experts \"", FormatIds(ids), "\"");
    const std::string found =
        Cat(tensor.dtype, " ", FormatShape(tensor.shape), ", ", LayerText(tensor.layer),
            ", experts \"", FormatIds(tensor.expert_ids), "\"");
    if (expected == found) return true;
    findings_.Error(Cat("tensor: expected ", expected, ", found ", found), bundle.file,
                    tensor.name);
    return false;
  }

  SourceSlices Geometry(const ModelTensor& known, const ExpertIds& ids,
                        const std::vector<ByteSourcePtr>& shards) const {
    const TensorEntry& entry = model_.entry(known);
    SourceSlices out;
    if (entry.bytes == 0) return out;
    out.file = shards[entry.file].get();
    out.offset = entry.offset;
    out.row = out.slice = entry.bytes;
    const bool router = known.part == Part::kRouter && !ids.empty();
    if (!(known.packed_expert() || router) || !known.axis) return out;
    uint64_t rows = 1;
    for (uint32_t axis = 0; axis < *known.axis; ++axis) rows *= entry.shape[axis];
    out.row = entry.bytes / rows;
    out.slice = out.row / ExpertsOf(known);
    out.ids = ids;
    if (out.slice == 0 || ids.empty()) out.file = nullptr;
    return out;
  }

  const Manifest& manifest_;
  const MoeModel& model_;
  RuleFindings findings_;
  std::map<PartKey, std::unordered_map<size_t, uint32_t>> holders_;
};

// Finds the source of an asset: the file of the same name beside the checkpoint.
void MatchAsset(const MoeModel& model, CheckedFile& file, std::vector<ByteSourcePtr>& opened,
                RuleFindings& findings) {
  const auto found = model.checkpoint().tree()->Open(file.file.substr(kAssetDirectory.size()));
  if (!found) {
    findings.Error(
        Cat("asset: expected the same file in the source, found none: ", found.error().message),
        file.file);
    return;
  }
  const ByteSourcePtr& source = *found;
  if (source->size() != file.size) {
    findings.Error(
        Cat("asset: expected ", source->size(), " bytes as in the source, found ", file.size),
        file.file);
    return;
  }
  opened.push_back(source);
  file.sources = {{source.get(), 0, file.size, file.size}};
  if (file.size == 0) file.sources.clear();
}

}  // namespace

Result<SourceFiles> MatchSources(const Manifest& manifest, const MoeModel& model,
                                 std::vector<CheckedFile>& files, Findings& findings) {
  SourceFiles sources;
  for (const SourceFile& file : model.checkpoint().files()) {
    SHARD_TRY(ByteSourcePtr opened, OpenUnchanged(file));
    sources.shards.push_back(std::move(opened));
  }
  Matcher matcher(manifest, model, findings);
  RuleFindings asset_findings("source-assets", findings);
  for (CheckedFile& file : files) {
    if (file.bundle == nullptr) {
      MatchAsset(model, file, sources.assets, asset_findings);
      continue;
    }
    if (manifest.is_gguf()) continue;  // these are made again instead (verify_gguf_source.cc)
    matcher.AddPart(*file.bundle);
    for (const TensorRecord& tensor : file.bundle->tensors) {
      file.sources.push_back(matcher.Match(*file.bundle, tensor, sources.shards));
    }
  }
  if (!manifest.is_gguf()) matcher.CheckPlaces();
  return sources;
}

}  // namespace moepack::manifest
