#include "tools/commands/experiment/experiment_passes.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/result.h"
#include "libshard/base/text/text.h"
#include "libshard/pack/refit_tensors.h"
#include "libshard/pack/slice_gguf.h"
#include "manifest/write/bundle.h"
#include "runtime-shim/eval/participants.h"
#include "runtime-shim/model/bos_token.h"
#include "tools/base/progress.h"
#include "tools/commands/calibrate_run.h"
#include "tools/commands/pack_files.h"
#include "tools/commands/refit_run.h"
#include "tools/options/options.h"

namespace moepack::cli {
namespace {

// ---- Refitted splits

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

// Where the files for the refit of a split are until the experiment is complete.
std::vector<fs::path> RefitPaths(const ExperimentModels& models, const ExperimentSplit& split) {
  std::vector<fs::path> paths = {ExperimentStore(models, split), RefittedPath(models, split, "")};
  for (const std::string& recipe : models.arguments.recipes)
    paths.push_back(RefittedPath(models, split, recipe));
  return paths;
}

// Refits the split on the experiment's calibration texts and writes its distribution in the types
// of the recipe, "" for the source's. What an earlier run finished is taken. Returns the
// distribution's directory. Errors are those of LoadForRefit, RunRefit and WriteDistribution.
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

// ----

using runtime::ExperimentPass;
using runtime::ExperimentRow;
using runtime::OpenedPass;

constexpr const char* kSetupFile = "setup.json";
constexpr uint64_t kMostSetup = 64u << 20;

// What a node of the group may pick from, in the layers that run.
LayerExperts MaskOf(const Plan& plan, size_t group, const runtime::Weights& weights) {
  LayerExperts mask;
  for (const auto& [layer, expert_count] : weights.moe_layers)
    mask[layer] = Eligible(plan, group, layer);
  return mask;
}

// A way to make the types of a recipe.
struct Quantization {
  std::string recipe;
  bool calibrated = false;
  std::string name() const { return Cat(recipe, calibrated ? ", calibrated" : ""); }
};

// In the order of their rows: plain ones first.
std::vector<Quantization> QuantizationsOf(const ExperimentModels& models) {
  std::vector<Quantization> all;
  for (const bool calibrated : {false, true}) {
    if (calibrated && !models.arguments.calibrate.runs()) continue;
    for (const std::string& recipe : models.arguments.recipes) all.push_back({recipe, calibrated});
  }
  return all;
}

fs::path QuantizedFile(const ExperimentModels& models, const Quantization& how) {
  return models.work / Cat(how.recipe, how.calibrated ? "-calibrated" : "", ".gguf");
}

// The model before it is quantized, with the types of a recipe.
struct Unquantized {
  moepack::Source source;
  SourceArguments named;
  QuantizeOptions options;
  TypedGguf typed;
};

Result<Unquantized> TypesFor(const ExperimentModels& models, const std::string& recipe) {
  Unquantized out;
  out.named.source = models.arguments.runtime.source;
  out.named.model = models.arguments.runtime.load.model;
  SHARD_TRY(out.source, LocalSource(out.named.source));
  out.options = RecipeFor(models.arguments, recipe);
  SHARD_TRY(out.typed, PrepareGguf(models.model, out.options));
  return out;
}

CalibrateRun CalibrationFor(const ExperimentModels& models, const Unquantized& from,
                            const std::string& recipe) {
  return {from.source,
          from.named,
          models.model,
          from.typed,
          models.arguments.calibrate,
          CalibratedStoreBeside((models.work / recipe).string()),
          models.arguments.runtime.load.jobs};
}

// The whole model in the types of the recipe; one written by an earlier run is reused, and so are
// layers that were calibrated.
Status Quantize(const ExperimentModels& models, const Quantization& how) {
  const fs::path out = QuantizedFile(models, how);
  SHARD_TRY(const bool there, IsThere(out));
  if (there) return Ok();
  SHARD_TRY(Unquantized from, TypesFor(models, how.recipe));
  const WholeGgufOptions whole{out.stem().string(), 0, from.options.alignment};
  CalibratedFiles made;
  if (how.calibrated) {
    const CalibrateRun run = CalibrationFor(models, from, how.recipe);
    SHARD_CHECK(RunCalibration(run));
    SHARD_TRY(made, WholeCalibrated(run, whole, from.typed.model));
  } else {
    SHARD_TRY(made.files, WholeGguf(from.typed.model, whole));
    made.sources = models.model.checkpoint().files();
  }
  Progress progress(Cat("quantizing to ", how.name()));
  PackOptions pack;
  pack.progress = progress.Shows();
  SHARD_TRY(const PackResult packed,
            PackFiles(made.sources, made.files, {out.string(), false}, pack, nullptr));
  return Ok();
}

// Counts the groups of all splits.
uint32_t CountGroups(const ExperimentModels& models) {
  size_t groups = 0;
  for (const ExperimentSplit& split : models.splits) groups += split.plan.groups.size();
  return static_cast<uint32_t>(groups);
}

// What every pass evaluates alike, for so many groups of the pass's own weights.
Result<std::unique_ptr<OpenedPass>> BeginPass(const ExperimentModels& models,
                                              std::shared_ptr<LoadedModel> own,
                                              std::shared_ptr<LoadedModel> against,
                                              uint32_t groups) {
  const RuntimeArguments& runtime = models.arguments.runtime;
  auto pass = std::make_unique<OpenedPass>();
  runtime::EvalOptions& options = pass->options;
  options = models.arguments.eval;
  options.progress = models.progress;
  SHARD_CHECK(runtime::FitEvaluation(*own->model, groups, against ? against->model.get() : nullptr,
                                     RunMemory(runtime, models.arguments.memory), options));
  runtime::EvalInput& input = pass->input;
  for (const auto& [layer, expert_count] : own->weights->moe_layers)
    input.routers[layer] = own->model->spec().layer[layer].router;
  input.bos = runtime::BosToken(own->weights->metadata);
  if (against) {
    input.reference = runtime::ParticipateAsReference(
        *against->model, runtime::EligibleExperts(*against->weights, std::nullopt, true), options);
  }
  pass->models = {std::move(own), std::move(against)};
  return pass;
}

// Loads the model; `reference` is the one before quantization, or null.
Result<std::unique_ptr<OpenedPass>> OpenModels(const ExperimentModels& models,
                                               const std::string& source,
                                               const std::string* reference) {
  const RuntimeArguments& runtime = models.arguments.runtime;
  SHARD_TRY(const auto executor, OpenExecutor(runtime));
  SHARD_TRY(LoadedModel loaded, LoadModel(source, runtime, executor));
  const auto own = std::make_shared<LoadedModel>(std::move(loaded));
  std::shared_ptr<LoadedModel> against;
  if (reference != nullptr) {
    SHARD_TRY(LoadedModel whole, LoadModel(*reference, runtime, executor));
    against = std::make_shared<LoadedModel>(std::move(whole));
  }
  SHARD_TRY(std::unique_ptr<OpenedPass> pass, BeginPass(models, own, against, CountGroups(models)));
  const runtime::EvalOptions& options = pass->options;
  runtime::EvalInput& input = pass->input;
  const runtime::Weights& weights = *own->weights;
  input.full = runtime::Participate("unmasked", *own->model,
                                    runtime::EligibleExperts(weights, std::nullopt, true), options);
  for (const ExperimentSplit& split : models.splits) {
    for (size_t group = 0; group < split.plan.groups.size(); ++group) {
      input.groups.push_back(runtime::Participate(Cat(split.strategy, " ", group), *own->model,
                                                  MaskOf(split.plan, group, weights), options));
    }
  }
  return pass;
}

// Loads the refitted split and the model that it is compared with. Its groups have their own
// experts, so there is no unmasked run of its weights.
Result<std::unique_ptr<OpenedPass>> OpenRefitted(const ExperimentModels& models,
                                                 const ExperimentSplit& split,
                                                 const std::string& recipe) {
  const RuntimeArguments& runtime = models.arguments.runtime;
  SHARD_TRY(const std::string distribution, MakeRefitted(models, split, recipe));
  SHARD_TRY(const auto executor, OpenExecutor(runtime));
  SHARD_TRY(LoadedModel whole, LoadModel(runtime.source, runtime, executor));
  const auto against = std::make_shared<LoadedModel>(std::move(whole));
  SHARD_TRY(LoadedModel loaded, LoadModel(distribution, RuntimeArguments(), executor));
  const auto own = std::make_shared<LoadedModel>(std::move(loaded));
  const auto groups = static_cast<uint32_t>(split.plan.groups.size());
  SHARD_TRY(std::unique_ptr<OpenedPass> pass, BeginPass(models, own, against, groups));
  for (uint32_t group = 0; group < groups; ++group) {
    pass->input.groups.push_back(runtime::Participate(
        Cat(split.strategy, " ", group), *own->model,
        runtime::EligibleExperts(*own->weights, group, true), pass->options, group));
  }
  return pass;
}

// The rows of all splits, starting at `row`.
void AddSplitParts(const ExperimentModels& models, size_t row, ExperimentPass& pass) {
  size_t first = 0;
  for (const ExperimentSplit& split : models.splits) {
    pass.parts.push_back({row++, {first, split.plan.groups.size()}});
    first += split.plan.groups.size();
  }
}

// `like` has what the rows have in common. `size` is the recipe's place in node_bytes.
void AddSplitRows(const ExperimentModels& models, const ExperimentRow& like, size_t size,
                  std::vector<ExperimentRow>& rows) {
  for (const ExperimentSplit& split : models.splits) {
    ExperimentRow& row = rows.emplace_back(like);
    row.strategy = split.strategy;
    row.eligible = split.eligible;
    row.node_bytes = split.node_bytes[size];
  }
}

// One pass for each refitted row, because each has its own weights.
void AddRefitPasses(const ExperimentModels& models, const std::string& recipe, size_t row,
                    std::vector<ExperimentPass>& passes) {
  for (const ExperimentSplit& split : models.splits) {
    ExperimentPass& pass = passes.emplace_back();
    pass.name = Cat(recipe.empty() ? "" : recipe + ", ", split.strategy, " refitted");
    pass.open = [&models, &split, recipe] { return OpenRefitted(models, split, recipe); };
    pass.parts.push_back({row++, {0, split.plan.groups.size()}});
  }
}

}  // namespace

std::vector<ExperimentRow> ExperimentRows(const ExperimentModels& models) {
  std::vector<ExperimentRow> rows;
  AddSplitRows(models, {}, 0, rows);
  const std::vector<std::string>& recipes = models.arguments.recipes;
  const std::vector<Quantization> quantizations = QuantizationsOf(models);
  for (size_t i = 0; i < quantizations.size(); ++i) {
    ExperimentRow row;
    row.recipe = quantizations[i].recipe;
    row.calibrated = quantizations[i].calibrated;
    rows.push_back(row);
    AddSplitRows(models, row, i % recipes.size() + 1, rows);
  }
  if (models.arguments.refit_texts.empty()) return rows;
  ExperimentRow refitted;
  refitted.refitted = true;
  AddSplitRows(models, refitted, 0, rows);
  for (size_t i = 0; i < recipes.size(); ++i) {
    refitted.recipe = recipes[i];
    AddSplitRows(models, refitted, i + 1, rows);
  }
  return rows;
}

std::vector<ExperimentPass> ExperimentPasses(const ExperimentModels& models) {
  const std::string& source = models.arguments.runtime.source;
  std::vector<ExperimentPass> passes(1);
  passes[0].name = "the model";
  passes[0].open = [&models, &source] { return OpenModels(models, source, nullptr); };
  AddSplitParts(models, 0, passes[0]);
  size_t row = models.splits.size();
  for (const Quantization& how : QuantizationsOf(models)) {
    ExperimentPass& pass = passes.emplace_back();
    pass.name = how.name();
    pass.open = [&models, &source, how]() -> Result<std::unique_ptr<OpenedPass>> {
      SHARD_CHECK(Quantize(models, how));
      return OpenModels(models, QuantizedFile(models, how).string(), &source);
    };
    pass.parts.push_back({row, {0, 0}});
    AddSplitParts(models, row + 1, pass);
    row += models.splits.size() + 1;
  }
  if (models.arguments.refit_texts.empty()) return passes;
  AddRefitPasses(models, "", row, passes);
  for (const std::string& recipe : models.arguments.recipes) {
    row += models.splits.size();
    AddRefitPasses(models, recipe, row, passes);
  }
  return passes;
}

std::vector<size_t> NodesOfRows(const ExperimentModels& models) {
  std::vector<size_t> nodes;
  for (const ExperimentRow& row : ExperimentRows(models))
    nodes.push_back(row.strategy.empty() ? 1 : models.splits.front().plan.groups.size());
  return nodes;
}

uint64_t RunsOfPass(const ExperimentModels& models, size_t pass) {
  const size_t whole = 1 + QuantizationsOf(models).size();
  if (pass < whole) return CountGroups(models) + (pass == 0 ? 1 : 2);
  return models.splits[(pass - whole) % models.splits.size()].plan.groups.size() + 1;
}

bool NeedsWork(const ExperimentModels& models) {
  return !models.arguments.recipes.empty() || !models.arguments.refit_texts.empty();
}

Status CheckCalibrations(const ExperimentModels& models) {
  if (!models.arguments.calibrate.runs()) return Ok();
  for (const std::string& recipe : models.arguments.recipes) {
    SHARD_TRY(const Unquantized from, TypesFor(models, recipe));
    Status can = CheckCanCalibrate(CalibrationFor(models, from, recipe));
    if (!can) return std::move(can).error().Within(recipe);
  }
  return Ok();
}

Status MakeWork(const ExperimentModels& models, const Json& setup) {
  const std::string text = WriteJson(setup);
  const fs::path mark = models.work / kSetupFile;
  SHARD_TRY(const bool there, IsThere(mark));
  if (there) {
    SHARD_TRY(const std::string before, ReadTextFile(mark, kMostSetup));
    // What an earlier run of the same setup has made is used again; anything else is stale.
    if (before == text) return Ok();
  }
  RemoveWork(models);
  std::error_code error;
  fs::create_directories(models.work, error);
  if (error)
    return Error{Code::kIo, Cat(models.work.string(), ": create: ", ErrnoText(error.value()))};
  return WriteTextFile(mark, text);
}

void RemoveWork(const ExperimentModels& models) {
  std::error_code ignored;
  for (const Quantization& how : QuantizationsOf(models)) {
    fs::remove(QuantizedFile(models, how), ignored);
    const fs::path store = CalibratedStoreBeside((models.work / how.recipe).string());
    if (how.calibrated) fs::remove_all(store, ignored);
  }
  for (const ExperimentSplit& split : models.splits) {
    for (const fs::path& path : RefitPaths(models, split)) fs::remove_all(path, ignored);
  }
  fs::remove(models.work / kSetupFile, ignored);
  fs::remove(models.work, ignored);
}

}  // namespace moepack::cli
