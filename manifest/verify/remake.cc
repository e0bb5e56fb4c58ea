#include "manifest/verify/remake.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/format/gguf.h"
#include "libshard/format/gguf_set.h"
#include "libshard/format/safetensors.h"
#include "libshard/pack/calibrated_tensors.h"
#include "libshard/pack/slice.h"
#include "libshard/recipe/imatrix.h"
#include "libshard/recipe/recipe_text.h"
#include "manifest/document/parents.h"
#include "manifest/document/parts.h"
#include "manifest/verify/requantize.h"

namespace moepack::manifest {

namespace {

// Recorded after the recipe if the conversion left out blocks for multi-token prediction.
constexpr std::string_view kNoMtp = " --no-mtp";

Result<std::string> FindImatrix(const RecipeRecord& recipe, const RemakeOptions& options) {
  if (recipe.imatrix_file.empty()) return std::string();
  std::string others;
  for (const std::string& file : options.imatrix_files) {
    SHARD_TRY(const Imatrix imatrix, ReadImatrix(file));
    // By digest, because names are of the machine that wrote the distribution.
    if (imatrix.sha256 == recipe.imatrix_sha256) return file;
    others += Cat(others.empty() ? "" : ", ", file, " with ", imatrix.sha256);
  }
  const std::string wanted =
      Cat(Quoted(recipe.imatrix_file), " with SHA-256 ", recipe.imatrix_sha256);
  if (others.empty()) {
    return Error{
        Code::kInvalidArgument,
        Cat("--imatrix: expected the importance matrix of the recipe, ", wanted, ", found none"),
        "--imatrix FILE names it; a refit leaves its own in the refit store, as imatrix.gguf"};
  }
  return Error{Code::kMismatch, Cat("--imatrix: expected the importance matrix of the recipe, ",
                                    wanted, ", found ", others)};
}

// Parses one step of a recipe.
Result<QuantizeOptions> StepOf(const std::string& where, std::string_view text,
                               const RecipeRecord& recipe, const RemakeOptions& options) {
  QuantizeOptions step;
  if (text.ends_with(kNoMtp)) {
    step.convert.mtp = false;
    text.remove_suffix(kNoMtp.size());
  }
  SHARD_TRY(step.recipe, ParseRecipeText(where, text));
  SHARD_TRY(step.imatrix_file, FindImatrix(recipe, options));
  step.imatrix_name = recipe.imatrix_file;
  step.convert.pre = options.pre;
  step.alignment = options.alignment;
  return step;
}

// Returns the last step of a requantized distribution's recipe.
Result<std::string> OwnRecipe(const std::string& where, const std::string& recipe,
                              const std::string& before) {
  const std::string suffix = RequantizedRecipe("", before);
  if (recipe.ends_with(suffix) && recipe.size() > suffix.size()) {
    return recipe.substr(0, recipe.size() - suffix.size());
  }
  return Error{Code::kCorrupt, Cat(where, ": expected a recipe that ends in ", Quoted(suffix),
                                   ", found ", Quoted(recipe))};
}

// The number of tensors in each file of a part.
using Division = std::map<PartKey, std::vector<size_t>>;

Division DivisionOf(const Manifest& manifest) {
  std::map<PartKey, std::vector<const BundleRecord*>> parts;
  for (const BundleRecord& bundle : manifest.bundles) {
    parts[PartOf(bundle)].push_back(&bundle);
  }
  Division division;
  for (auto& [part, bundles] : parts) {
    std::sort(bundles.begin(), bundles.end(),
              [](const auto* a, const auto* b) { return a->file < b->file; });
    for (const BundleRecord* bundle : bundles) division[part].push_back(bundle->tensors.size());
  }
  return division;
}

// How a file is laid out again.
struct LayoutAgain {
  size_t number = 1;  // of the file in its part
  uint64_t alignment = 0;
  std::optional<uint64_t> start = std::nullopt;  // of the tensors of safetensors; none: the usual
};

// Lays out a file again after it was divided or reordered. Only trunk files have a number of their
// own (split.no).
Status LayOutAgain(const OutputFile& whole, const LayoutAgain& how, OutputFile& file) {
  const auto prefix = std::as_bytes(std::span(whole.prefix));
  if (!whole.path.ends_with(".gguf")) {
    SHARD_TRY(const SafetensorsHeader header, ParseSafetensors(whole.path, prefix, whole.size));
    LayOutSafetensors(file, header.metadata, how.start);
    return Ok();
  }
  SHARD_TRY(GgufHeader header, ParseGguf(whole.path, prefix, whole.size));
  if (whole.role == Role::kTrunk) {
    header.metadata.Set(kSplitNoKey, GgufValue::U16(static_cast<uint16_t>(how.number)));
  }
  LayOutGguf(file, header.metadata, how.alignment);
  return Ok();
}

// Divides `whole` into files with `counts` tensors each. Tensors beyond the counts go into the
// last.
Status Divide(OutputFile whole, const std::vector<size_t>& counts, uint64_t alignment,
              std::vector<OutputFile>& out) {
  const fs::path path = whole.path;
  const std::string directory = path.parent_path().string(), stem = path.stem().string();
  const std::string extension = path.extension().string();
  auto next = whole.tensors.begin();
  for (size_t i = 0; i < counts.size(); ++i) {
    OutputFile file;
    file.path = PartFileName({directory, stem, extension}, i + 1, counts.size());
    file.role = whole.role;
    file.group = whole.group;
    const auto left = static_cast<size_t>(whole.tensors.end() - next);
    const size_t count = i + 1 == counts.size() ? left : std::min(left, counts[i]);
    const auto end = next + static_cast<std::ptrdiff_t>(count);
    file.tensors.assign(next, end);
    next = end;
    SHARD_CHECK(LayOutAgain(whole, {i + 1, alignment}, file));
    out.push_back(std::move(file));
  }
  return Ok();
}

// The records of a part's tensors, in their order.
std::vector<const TensorRecord*> RecordsOf(const Manifest& manifest, const PartKey& part) {
  std::vector<const BundleRecord*> bundles;
  for (const BundleRecord& bundle : manifest.bundles) {
    if (PartOf(bundle) == part) bundles.push_back(&bundle);
  }
  std::sort(bundles.begin(), bundles.end(),
            [](const auto* a, const auto* b) { return a->file < b->file; });
  std::vector<const TensorRecord*> records;
  for (const BundleRecord* bundle : bundles) {
    for (const TensorRecord& tensor : bundle->tensors) records.push_back(&tensor);
  }
  return records;
}

// The order of tensors in an overlay, and where they start in a page, is the writer's choice: a
// writer that assembles one from other parts does not know the source's. A part with other tensors
// is left alone.
Status OrderAsRecorded(const Manifest& manifest, uint64_t alignment, OutputFile& file) {
  const std::vector<const TensorRecord*> records = RecordsOf(manifest, PartOf(file));
  if (records.size() != file.tensors.size()) return Ok();
  std::map<std::string_view, size_t> places;
  for (size_t i = 0; i < records.size(); ++i) places.emplace(records[i]->name, i);
  std::vector<const OutputTensor*> order(records.size());
  for (const OutputTensor& tensor : file.tensors) {
    const auto place = places.find(tensor.entry.name);
    if (place == places.end() || order[place->second] != nullptr) return Ok();
    order[place->second] = &tensor;
  }
  OutputFile ordered;
  ordered.path = file.path;
  ordered.role = file.role;
  for (const OutputTensor* tensor : order) ordered.tensors.push_back(*tensor);
  const uint64_t start = records.empty() ? 0 : records[0]->offset;
  SHARD_CHECK(LayOutAgain(file, {1, alignment, start}, ordered));
  file = std::move(ordered);
  return Ok();
}

// Divides parts into files as the manifest records it, because that was the writer's choice
// (--max-part-size).
Status DivideAll(const Manifest& manifest, uint64_t alignment, std::vector<OutputFile>& files) {
  const Division division = DivisionOf(manifest);
  std::vector<OutputFile> out;
  for (OutputFile& file : files) {
    if (file.role == Role::kOverlay) SHARD_CHECK(OrderAsRecorded(manifest, alignment, file));
    const auto known = division.find(PartOf(file));
    if (known == division.end() || known->second.size() < 2) {
      out.push_back(std::move(file));
    } else {
      SHARD_CHECK(Divide(std::move(file), known->second, alignment, out));
    }
  }
  files = std::move(out);
  return Ok();
}

bool HasRemainder(const Manifest& manifest) {
  return std::any_of(manifest.bundles.begin(), manifest.bundles.end(),
                     [](const BundleRecord& bundle) { return bundle.role == Role::kRemainder; });
}

}  // namespace

Result<std::vector<QuantizeOptions>> StepsOf(const Manifest& manifest,
                                             const RemakeOptions& options) {
  std::vector<QuantizeOptions> steps;
  std::vector<RecipeRecord> recipes;
  SHARD_TRY(const std::vector<ParentRecord> parents, ParentsOf(manifest));
  for (const ParentRecord& parent : parents) recipes.push_back(parent.recipe);
  recipes.push_back(manifest.recipe);
  for (size_t i = 0; i < recipes.size(); ++i) {
    const std::string where =
        i + 1 == recipes.size() ? "tool.recipe" : Cat("tool.parents[", i, "].recipe");
    std::string text = recipes[i].name;
    if (i > 0) {
      SHARD_TRY(text, OwnRecipe(where, recipes[i].name, recipes[i - 1].name));
    }
    SHARD_TRY(QuantizeOptions step, StepOf(where, text, recipes[i], options));
    steps.push_back(std::move(step));
  }
  const bool wanted = std::any_of(recipes.begin(), recipes.end(), [](const RecipeRecord& recipe) {
    return !recipe.imatrix_file.empty();
  });
  if (!options.imatrix_files.empty() && !wanted) {
    return Error{Code::kInvalidArgument,
                 "--imatrix has no effect: the distribution was made without one", "leave it out"};
  }
  return steps;
}

Result<WritePlan> Remake(const Manifest& manifest, const MoeModel& model,
                         const std::vector<QuantizeOptions>& steps, const RefitTensors* refit,
                         const CalibratedTensors* calibrated) {
  WriteOptions write;
  write.model_id = manifest.model.id;
  write.slice.keep_remainder = HasRemainder(manifest);
  if (manifest.is_gguf()) {
    write.gguf = steps.front();
    write.gguf->recipe.measured_later = manifest.calibrated != nullptr;
  }
  Plan plan = manifest.plan;
  // The source decides which layers there are; the caller compares them with the plan's.
  plan.layers = LayerCountsOf(model);
  plan.top_k = TopKOf(model);
  std::optional<RefitTensors> stated;
  if (refit == nullptr && manifest.refit) {
    stated = RefitTensors::Stated(*manifest.refit);
    refit = &*stated;
  }
  write.slice.refit = refit;
  std::optional<CalibratedTensors> stated_tensors;
  if (calibrated == nullptr && manifest.calibrated) {
    stated_tensors = CalibratedTensors::Stated(*manifest.calibrated);
    calibrated = &*stated_tensors;
  }
  write.slice.calibrated = calibrated;
  SHARD_TRY(WritePlan made, PlanDistribution(model, plan, write));
  SHARD_CHECK(DivideAll(manifest, write.gguf ? write.gguf->alignment : 0, made.files));
  // Quantizing twice is not quantizing once, so every step is made again in its order.
  for (size_t i = 1; i < steps.size(); ++i) {
    write.gguf = steps[i];
    SHARD_TRY(WritePlan next, RequantizeInMemory(manifest, made.files, write));
    next.assets = std::move(made.assets);
    next.plan = std::move(made.plan);
    made = std::move(next);
  }
  return made;
}

}  // namespace moepack::manifest
