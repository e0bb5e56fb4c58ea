// Verifies against the source. Source, recorded plan and recorded recipe are turned into a
// distribution again, and everything is compared with that: the description of the model, files,
// headers, padding and bytes.
#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "manifest/verify/refit_store_of.h"
#include "manifest/verify/remake.h"
#include "manifest/verify/verify_source_rules.h"
#include "manifest/write/open_bundle.h"

namespace moepack::manifest {

namespace {

// A recipe or plan from which nothing can be made is a false statement of the manifest, and so a
// finding. A file that cannot be read is an error.
bool IsStatement(Code code) { return code == Code::kCorrupt || code == Code::kInvalidArgument; }

class AgainstSource {
 public:
  AgainstSource(const Manifest& manifest, const SourceTree& tree, std::vector<CheckedFile>& files,
                const VerifyOptions& options, VerifyReport& report)
      : manifest_(manifest), tree_(tree), files_(files), options_(options), report_(report) {
    // What is made again is compared by digests.
    if (manifest.is_gguf() || !options.refit_store.empty()) options_.digests = true;
  }

  Status Run() {
    if (!options_.against_source) {
      SHARD_TRY(options_.against_source, LocalSource(options_.against));
    }
    SHARD_TRY(const MoeModel model,
              MoeModel::Open(*options_.against_source, {.family_file = options_.family_file,
                                                        .config_file = options_.config_file}));
    AddRules(kSourceRules, report_);
    RuleFindings facts("source-model", report_.findings);
    SHARD_CHECK(CheckSourceModel(manifest_, model, options_.jobs, facts));
    SHARD_CHECK(OpenRefit(model));
    SHARD_CHECK(OpenCalibrated(model));
    SHARD_TRY(const std::optional<WritePlan> expected, MakeAgain(model, facts));
    // Records are only compared if the source files match: with another source every tensor would
    // be a finding.
    const size_t before = report_.findings.size();
    SHARD_TRY(const SourceFiles sources, MatchSources(manifest_, model, files_, report_.findings));
    if (expected) {
      const bool same = report_.findings.size() == before;
      SHARD_CHECK(CheckLayout(tree_, files_, {expected->files, same}, report_.findings));
      RuleFindings assets("source-assets", report_.findings);
      CheckAssetList(manifest_, expected->assets, assets);
    }
    SHARD_CHECK(CheckBytes(tree_, files_, options_, report_));
    if (expected) SHARD_CHECK(CheckMade(model, expected->files));
    RuleFindings claims("source-claims", report_.findings);
    SHARD_CHECK(ClaimUnproved(manifest_, model, claims));
    return model.checkpoint().CheckUnchanged();
  }

 private:
  Status OpenRefit(const MoeModel& model) {
    if (options_.refit_store.empty()) return Ok();
    SHARD_TRY(const RefitStore store,
              OpenStoreOf(manifest_, tree_.NameOf(kManifestFile), options_.refit_store));
    // Whether a part of a refit has the groups that there are is for the rule refit-derived.
    PartSelection whatever;
    whatever.all = false;
    SHARD_TRY(refit_, RefitTensors::Of(store, model, manifest_.plan, whatever));
    report_.rules.push_back(kRefitBytesRule);
    return Ok();
  }

  Status OpenCalibrated(const MoeModel& model) {
    if (options_.calibrated_store.empty()) return Ok();
    SHARD_TRY(
        const CalibratedStore store,
        OpenCalibratedStoreOf(manifest_, tree_.NameOf(kManifestFile), options_.calibrated_store));
    const size_t before = model.checkpoint().files().size() + (refit_ ? refit_->files().size() : 0);
    const RefitRecord* const refit = manifest_.calibrated->groups ? manifest_.refit.get() : nullptr;
    SHARD_TRY(calibrated_, CalibratedTensors::Of(store, {model.Version(""), refit},
                                                 static_cast<uint32_t>(before)));
    return Ok();
  }

  // Safetensors bundles have been compared with the source byte by byte.
  Status CheckMade(const MoeModel& model, const std::vector<OutputFile>& files) {
    if (!manifest_.is_gguf() && !refit_) return Ok();
    MadeAgain again{files, model.checkpoint().files(), manifest_.is_gguf(), refit_.has_value()};
    again.calibrated = manifest_.calibrated.get();
    again.of_calibration = calibrated_.has_value();
    if (refit_)
      again.sources.insert(again.sources.end(), refit_->files().begin(), refit_->files().end());
    if (calibrated_)
      again.sources.insert(again.sources.end(), calibrated_->files().begin(),
                           calibrated_->files().end());
    return CheckMadeBytes(files_, again, options_, report_);
  }

  // Returns no value, and adds a finding, if the manifest's own statements do not allow it.
  Result<std::optional<WritePlan>> MakeAgain(const MoeModel& model, RuleFindings& findings) {
    const std::optional<WritePlan> none;
    if (!SameLayers(manifest_, model)) return none;
    SHARD_TRY(const std::optional<std::vector<QuantizeOptions>> steps, Steps(findings));
    if (!steps) return none;
    Result<WritePlan> made = Remake(manifest_, model, *steps, refit_ ? &*refit_ : nullptr,
                                    calibrated_ ? &*calibrated_ : nullptr);
    if (made) {
      CheckPlanLayers(*made, findings);
      return std::optional(std::move(made).value());
    }
    if (!IsStatement(made.error().code)) return std::move(made).error();
    findings.Error(Cat("plan and recipe: expected some that can be made again, found others: ",
                       made.error().message));
    return none;
  }

  Result<std::optional<std::vector<QuantizeOptions>>> Steps(RuleFindings& findings) {
    if (!manifest_.is_gguf()) {
      if (!options_.imatrix_files.empty() || !options_.pre.empty()) return NothingToMake();
      if (!manifest_.recipe.name.empty() || !manifest_.recipe.imatrix_file.empty()) {
        findings.Error(Cat("tool.recipe: expected none for safetensors bundles, found ",
                           Quoted(manifest_.recipe.name)));
      }
      return std::optional(std::vector<QuantizeOptions>());
    }
    auto steps = StepsOf(manifest_, {options_.imatrix_files, options_.pre, Alignment()});
    if (steps) return std::optional(std::move(steps).value());
    if (steps.error().code != Code::kCorrupt) return std::move(steps).error();
    findings.Error(steps.error().message);
    return std::optional<std::vector<QuantizeOptions>>();
  }

  Error NothingToMake() const {
    return {Code::kInvalidArgument,
            Cat(options_.pre.empty() ? "--imatrix" : "--pre",
                " has no effect: the distribution has safetensors bundles"),
            "leave it out: safetensors bundles are the source's own bytes"};
  }

  // Compares the layers of the plan. The conversion determines which blocks for multi-token
  // prediction there are.
  void CheckPlanLayers(const WritePlan& made, RuleFindings& findings) {
    if (made.plan.layers == manifest_.plan.layers) return;
    findings.Error(Cat("layers with experts: expected ", made.plan.layers.size(),
                       " as the conversion gives, found ", manifest_.plan.layers.size()));
  }

  // The manifest does not record the alignment, so a file's header gives it. Headers are then
  // compared with what is laid out using it.
  uint64_t Alignment() const {
    for (const CheckedFile& file : files_) {
      if (file.bundle == nullptr || file.bundle->format != "gguf" || !file.readable) continue;
      auto alignment = AlignmentOf(tree_, *file.bundle);
      if (alignment) return *alignment;
    }
    return kGgufDefaultAlignment;
  }

  const Manifest& manifest_;
  const SourceTree& tree_;
  std::vector<CheckedFile>& files_;
  VerifyOptions options_;
  VerifyReport& report_;
  std::optional<RefitTensors> refit_;            // of a store
  std::optional<CalibratedTensors> calibrated_;  // of a store
};

}  // namespace

Status CheckAgainst(const Manifest& manifest, const SourceTree& tree,
                    std::vector<CheckedFile>& files, const VerifyOptions& options,
                    VerifyReport& report) {
  return AgainstSource(manifest, tree, files, options, report).Run();
}

}  // namespace moepack::manifest
