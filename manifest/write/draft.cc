#include "manifest/write/draft.h"

#include <malloc.h>

#include <memory>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/check/model_check.h"
#include "libshard/convert/model_card.h"
#include "libshard/pack/calibrated_tensors.h"
#include "libshard/pack/refit_tensors.h"
#include "libshard/pack/slice_gguf.h"
#include "manifest/document/describe_model.h"
#include "manifest/document/read_back.h"
#include "manifest/write/output_path.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

Status PlanGguf(const MoeModel& model, const Plan& plan, const WriteOptions& options,
                WritePlan& out) {
  QuantizeOptions quantize = *options.gguf;
  quantize.model_id = options.model_id;
  SHARD_TRY(TypedGguf typed, PrepareGguf(model, quantize));
  if (const CalibratedTensors* calibrated = options.slice.calibrated) {
    SHARD_CHECK(calibrated->CheckAllIn(typed.model));
    SetCalibrationKeys(calibrated->record(), typed.model.metadata);
  }
  out.notes = GgufNotes(typed);
  out.warnings = typed.model.faults;
  if (options.list_types) out.types = ListTypes(typed);
  out.recipe = DescribeRecipe(*options.gguf, typed);
  if (!options.gguf->convert.mtp) out.recipe.name += " --no-mtp";
  // The conversion may leave out blocks for multi-token prediction; the plan follows it.
  out.plan = moepack::PlanFor(typed.model, plan);
  const GgufSlicing slicing{typed.model, model.Version(""), typed.recipe.overlay_types,
                            options.gguf->alignment, typed.imatrix ? &*typed.imatrix : nullptr};
  auto files = SliceGguf(slicing, out.plan, options.slice);
  if (!files) return std::move(files).error().Within(model.checkpoint().source().string());
  out.files = std::move(files).value();
  return Ok();
}

// Bundles with the source's own tensors are refused for what a conversion would refuse. Blocks for
// multi-token prediction are often missing, and nothing can be said of names or a config alone.
Status CheckAsPromised(const MoeModel& model) {
  const Checkpoint& checkpoint = model.checkpoint();
  if (!model.has_config() || checkpoint.names_only() || checkpoint.promised()) return Ok();
  return RequirePromised(model, {.defaults = "", .mtp_may_lack = true});
}

Status CheckTarget(const MoeModel& model, const std::string& out) {
  const SourceTree& tree = *model.checkpoint().tree();
  const std::optional<fs::path> directory = tree.LocalPath("");
  if (out.empty() || !directory) return Ok();
  std::vector<fs::path> inputs;
  for (const SourceFile& file : model.checkpoint().files()) {
    inputs.push_back(*tree.LocalPath(file.name));
  }
  return CheckOutputApart(out, *directory, inputs);
}

// Checked before anything is written, so that nobody waits for an answer that cannot be given.
Status CheckDigestsArePublished(const std::vector<SourceFile>& sources) {
  for (const SourceFile& source : sources) {
    if (source.origin && !source.origin->sha256.empty()) continue;
    return Error{Code::kUnsupported,
                 Cat(source.path.string(), ": expected a published SHA-256, found none"),
                 "the Hub publishes one for every large file; --hash-source records the digest "
                 "without comparing it"};
  }
  return Ok();
}

// The manifest as it is before any file is written.
Result<Manifest> DescribeRun(const MoeModel& model, const WritePlan& files,
                             const WriteOptions& options) {
  Manifest fresh = DescribeModel(model, files.plan, options.model_id, options.revision);
  if (const RefitTensors* refit = options.slice.refit) {
    fresh.refit = std::make_shared<const RefitRecord>(refit->record());
    fresh.versions.refit = RefitVersion(*fresh.refit);
  }
  if (const CalibratedTensors* calibrated = options.slice.calibrated)
    fresh.calibrated = std::make_shared<const CalibratedRecord>(calibrated->record());
  SHARD_TRY(fresh.model.license, LicenseOf(model));
  fresh.command = options.command;
  fresh.recipe = files.recipe;
  SHARD_TRY(fresh.created, SourceDateEpoch());
  return fresh;
}

}  // namespace

uint64_t WritePlan::total_bytes() const {
  uint64_t total = 0;
  for (const OutputFile& file : files) total += file.size;
  for (const Asset& asset : assets) total += asset.size;
  return total;
}

const char* Draft::format() const {
  return manifest && !manifest->is_gguf() ? "safetensors" : "gguf";
}

Result<WritePlan> PlanDistribution(const MoeModel& model, const Plan& plan,
                                   const WriteOptions& options) {
  WritePlan out;
  out.plan = plan;
  if (options.gguf) {
    SHARD_CHECK(PlanGguf(model, plan, options, out));
  } else if (model.checkpoint().is_gguf()) {
    return Error{Code::kUnsupported, Cat("--format safetensors cannot be written from ",
                                         model.checkpoint().source().string(), ", which is GGUF")};
  } else {
    SHARD_CHECK(CheckAsPromised(model));
    SHARD_TRY(out.files, SliceSafetensors(model, plan, options.slice));
  }
  if (options.slice.parts.WantsAssets()) {
    SHARD_TRY(out.assets, ListAssets(*model.checkpoint().tree()));
  }
  if (!out.files.empty() || !out.assets.empty()) return out;
  return Error{
      Code::kInvalidArgument, "--only chooses nothing that this plan has",
      "the plan has no overlay or remainder, or the source no assets: leave that part out"};
}

Result<Draft> DraftDistribution(MoeModel model, const Plan& plan, const std::string& out,
                                const WriteOptions& options) {
  const auto held = std::make_shared<MoeModel>(std::move(model));
  Draft draft;
  draft.model = held;
  draft.sources = held->checkpoint().files();
  SHARD_CHECK(CheckTarget(*held, out));
  if (options.verify_source) SHARD_CHECK(CheckDigestsArePublished(draft.sources));
  draft.noted = options.side_files.value_or(
      SideFiles::Note(held->checkpoint().tree(), held->config_path().string()));
  SHARD_TRY(draft.files, PlanDistribution(*held, plan, options));
  SHARD_TRY(draft.manifest, DescribeRun(*held, draft.files, options));
  if (const RefitTensors* refit = options.slice.refit)
    draft.sources.insert(draft.sources.end(), refit->files().begin(), refit->files().end());
  if (const CalibratedTensors* calibrated = options.slice.calibrated)
    draft.sources.insert(draft.sources.end(), calibrated->files().begin(),
                         calibrated->files().end());
  draft.assets_from = held->checkpoint().tree();
  draft.source_has_assets = !draft.files.assets.empty();
  if (!options.slice.parts.WantsAssets()) {
    SHARD_TRY(const std::vector<Asset> assets, ListAssets(*draft.assets_from));
    draft.source_has_assets = !assets.empty();
  }
  if (!options.gguf) held->ForgetTensors();  // copying no longer needs them
  ReturnFreedMemory();
  SHARD_CHECK(ReadBackPlanned(*draft.manifest, draft.files.files, draft.format()));
  return draft;
}

void ReturnFreedMemory() { malloc_trim(0); }

}  // namespace moepack::manifest
