#include "tools/commands/experiment/experiment_refit.h"

#include "libshard/base/files/descriptor.h"
#include "libshard/base/text/text.h"
#include "libshard/pack/refit_tensors.h"
#include "manifest/write/bundle.h"
#include "tools/base/progress.h"
#include "tools/commands/refit_run.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

fs::path ExperimentStore(const ExperimentModels& models, const ExperimentSplit& split) {
  return models.work / Cat(split.strategy, kRefitStoreSuffix);
}

fs::path RefittedPath(const ExperimentModels& models, const ExperimentSplit& split,
                      const std::string& recipe) {
  return models.work / (recipe.empty() ? split.strategy : Cat(split.strategy, "-", recipe));
}

// Layers that the store has already are not refitted again. The model is loaded as `build --refit`
// loads it, so that the importance matrix is the same.
Status RefitSplit(const ExperimentModels& models, const ExperimentSplit& split) {
  SHARD_TRY(const RefitModelLoad whole, LoadForRefit(models.arguments.runtime));
  RefitArguments refit;
  refit.texts.texts = models.arguments.refit_texts;
  // The texts of the measurement must not be those of the calibration: an overlap is refused.
  refit.held_out = models.arguments.texts.texts;
  refit.overlap_hint = "--refit-text and --text must name different texts";
  refit.options = models.arguments.refit;
  refit.options.context = models.arguments.eval.context;
  refit.options.jobs = models.arguments.runtime.load.jobs;
  refit.options.executor = models.arguments.runtime.executor;
  const RefitRun run{whole.loaded,
                     split.plan,
                     models.model.Version(""),
                     refit,
                     ExperimentStore(models, split).string(),
                     whole.moments.get()};
  SHARD_CHECK(RunRefit(run));
  return Ok();
}

// Of the recipe for refitted experts: with what the refit saw, unless the user named something
// else.
QuantizeOptions RefittedRecipe(const ExperimentModels& models, const ExperimentSplit& split,
                               const std::string& recipe) {
  QuantizeOptions options = RecipeFor(models.arguments, recipe);
  if (options.imatrix_file.empty())
    options.imatrix_file = (ExperimentStore(models, split) / kRefitImatrix).string();
  return options;
}

}  // namespace

std::vector<fs::path> RefitPaths(const ExperimentModels& models, const ExperimentSplit& split) {
  std::vector<fs::path> paths = {ExperimentStore(models, split), RefittedPath(models, split, "")};
  for (const std::string& recipe : models.arguments.recipes)
    paths.push_back(RefittedPath(models, split, recipe));
  return paths;
}

Result<std::string> MakeRefitted(const ExperimentModels& models, const ExperimentSplit& split,
                                 const std::string& recipe) {
  const fs::path out = RefittedPath(models, split, recipe);
  SHARD_TRY(const bool there, IsThere(out));
  if (there) return out.string();
  SHARD_CHECK(RefitSplit(models, split));
  SHARD_TRY(const RefitStore store, RefitStore::Open(ExperimentStore(models, split)));
  SHARD_TRY(const RefitTensors refit, RefitTensors::Of(store, models.model, split.plan));
  manifest::WriteOptions options;
  options.slice.refit = &refit;
  if (!recipe.empty()) options.gguf = RefittedRecipe(models, split, recipe);
  if (recipe.empty() && models.model.checkpoint().is_gguf()) options.gguf.emplace();
  Progress progress("writing");
  options.pack.progress = progress.Shows();
  SourceArguments source;
  source.source = models.arguments.runtime.source;
  source.model = models.arguments.runtime.load.model;
  SHARD_TRY(MoeModel model, OpenModel(source));
  SHARD_CHECK(manifest::WriteDistribution(std::move(model), split.plan, out.string(), options));
  return out.string();
}

}  // namespace moepack::cli
