#include "tools/reports/planning/node_sizes.h"

#include <algorithm>
#include <array>
#include <optional>

#include "libshard/base/text/text.h"
#include "libshard/pack/part_sizes.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/recipe_list.h"
#include "tools/reports/node_report.h"

namespace moepack::cli {
namespace {

constexpr std::array kUsualGroups = {2u, 4u, 8u, 16u};
constexpr std::array kUsualRecipes = {"Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K"};

class Sizer {
 public:
  Sizer(const MoeModel& model, const NodeSizeOptions& options) : model_(model), options_(options) {}

  Result<NodeSizes> Run() {
    SHARD_CHECK(MakePlans());
    if (plans_.empty()) return std::move(out_);
    if (Status source = AddSource(); !source) {
      if (!options_.groups.empty() || !options_.recipes.empty()) return std::move(source).error();
      NodeSizes none;
      none.notes.push_back(Cat("no sizes of nodes: ", source.error().message));
      return none;
    }
    const bool chosen = !options_.recipes.empty();
    if (Status view = Convert(); !view) {
      Error error = std::move(view).error();
      // The tensor that it misses is one that is missing here, not in the model.
      if (options_.partial && error.code == Code::kCorrupt) error = NotAllTensors();
      if (chosen) return error;
      out_.notes.push_back(Cat("no sizes by recipe: ", error.message));
      return std::move(out_);
    }
    std::vector<std::string> recipes = options_.recipes;
    if (!chosen) recipes.assign(kUsualRecipes.begin(), kUsualRecipes.end());
    for (const std::string& recipe : recipes) {
      Status sized = AddRecipe(recipe);
      if (sized) continue;
      if (chosen) return std::move(sized).error();
      out_.notes.push_back(Cat("no sizes by recipe: ", sized.error().message));
      break;
    }
    return std::move(out_);
  }

 private:
  Error NotAllTensors() const {
    return {Code::kUnsupported,
            Cat(model_.config_path().string(), ": expected a config from which moepack works out ",
                "all tensors, found one of family ", model_.family().name,
                ", for which it knows only some"),
            "the headers of the checkpoint's files are enough: name its directory or address"};
  }

  Status MakePlans() {
    const bool chosen = !options_.groups.empty();
    std::vector<uint32_t> counts = options_.groups;
    if (!chosen) counts.assign(kUsualGroups.begin(), kUsualGroups.end());
    for (const uint32_t groups : counts) {
      PlanOptions plan;
      plan.groups = groups;
      auto made = MakePlan(model_, plan);
      if (!made && chosen) return std::move(made).error().Within(Cat("--groups ", groups));
      // The usual numbers ascend, and with more groups nodes hold still fewer experts.
      if (!made) break;
      uint64_t expert_count = 0;
      for (uint32_t group = 0; group < groups; ++group) {
        expert_count = std::max(expert_count, CountNodeExperts(*made, group).eligible.most);
      }
      out_.rows.push_back({groups, expert_count, {}});
      plans_.push_back(*std::move(made));
    }
    return Ok();
  }

  void AddSizes(size_t plan, const PartSizes& sizes) {
    const uint64_t largest = *std::max_element(sizes.groups.begin(), sizes.groups.end());
    out_.rows[plan].bytes.push_back(sizes.trunk + largest);
  }

  // As the checkpoint stores it; a GGUF stays one.
  Status AddSource() {
    out_.formats.emplace_back("source");
    if (model_.checkpoint().is_gguf()) {
      SHARD_CHECK(Convert());
      return SizeGguf("");
    }
    const SafetensorsSizes sizes(model_);
    for (size_t i = 0; i < plans_.size(); ++i) {
      SHARD_TRY(const PartSizes parts, sizes.Of(plans_[i]));
      AddSizes(i, parts);
    }
    return Ok();
  }

  // The GGUF view, made once for all recipes. A config without a tokenizer gives a view without
  // one.
  Status Convert() {
    if (view_) return Ok();
    ConvertOptions convert = options_.convert;
    auto view = ToGguf(model_, convert);
    if (!view && model_.checkpoint().promised()) {
      convert.part = ConvertOptions::Part::kNoTokenizer;
      view = ToGguf(model_, convert);
      if (view)
        out_.notes.emplace_back("sizes by recipe are without the tokenizer, which is not there");
    }
    if (!view) return std::move(view).error();
    view_ = *std::move(view);
    // Sizes follow from shapes, so a hundred thousand ranges would be copied for nothing.
    for (GgufTensor& tensor : view_->tensors) {
      tensor.sources.clear();
      tensor.rows.clear();
    }
    for (const std::string& warning : view_->warnings) out_.notes.push_back(warning);
    for (const std::string& fault : view_->faults) out_.notes.push_back(fault);
    for (const Plan& plan : plans_) gguf_plans_.push_back(moepack::PlanFor(*view_, plan));
    return Ok();
  }

  Status AddRecipe(const std::string& recipe) {
    const moepack::Recipe* known = FindRecipe(recipe);
    SHARD_CHECK(SizeGguf(recipe));
    out_.formats.push_back(known == nullptr ? recipe : std::string(known->name));
    return Ok();
  }

  Status SizeGguf(const std::string& recipe) {
    QuantizeOptions quantize;
    quantize.recipe.recipe = recipe;
    TypedGguf typed;
    typed.model = *view_;
    SHARD_CHECK(ChooseTypes(quantize, typed));
    const GgufSlicing slicing{typed.model, model_.Version(""), {}};
    auto sizes = GgufSizes::Make(slicing);
    if (!sizes) return std::move(sizes).error().Within(model_.checkpoint().source().string());
    for (size_t i = 0; i < plans_.size(); ++i) AddSizes(i, sizes->Of(gguf_plans_[i]));
    return Ok();
  }

  const MoeModel& model_;
  const NodeSizeOptions& options_;
  std::vector<Plan> plans_, gguf_plans_;
  std::optional<GgufModel> view_;
  NodeSizes out_;
};

}  // namespace

Result<NodeSizes> SizeNodes(const MoeModel& model, const NodeSizeOptions& options) {
  if (model.checkpoint().names_only()) {
    if (options.groups.empty() && options.recipes.empty()) return NodeSizes{};
    return Error{Code::kInvalidArgument,
                 Cat(options.groups.empty() ? "--recipe" : "--groups",
                     " has no effect: ", model.checkpoint().source().string(),
                     " is an index alone, which has no sizes"),
                 "the checkpoint's config.json alone tells sizes: name it as SRC"};
  }
  return Sizer(model, options).Run();
}

}  // namespace moepack::cli
