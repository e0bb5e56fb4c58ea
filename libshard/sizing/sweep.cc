#include "libshard/sizing/sweep.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

// The fewest experts and the largest top-k among the layers that the format keeps.
struct Extent {
  uint32_t experts = UINT32_MAX, top_k = 1;
};

Extent ExtentOf(const MoeModel& model, const NodeSizer& sizer) {
  Plan all;
  all.layers = LayerCountsOf(model);
  all.top_k = TopKOf(model);
  const Plan there = sizer.PlanOf(all);
  Extent extent;
  for (const auto& [layer, count] : there.layers) extent.experts = std::min(extent.experts, count);
  for (const auto& [layer, top_k] : there.top_k) extent.top_k = std::max(extent.top_k, top_k);
  return extent;
}

std::optional<QuantizeOptions> TypesOf(const std::string& recipe) {
  if (recipe.empty()) return std::nullopt;
  QuantizeOptions options;
  options.recipe.recipe = recipe;
  return options;
}

class Sweeper {
 public:
  Sweeper(const MoeModel& model, const SweepOptions& options) : model_(model), options_(options) {}

  Result<SweepTable> Run() {
    for (const std::string& recipe : options_.recipes) {
      const Status added = AddRecipe(recipe);
      if (added) continue;
      if (options_.all_recipes_named) return added.error();
      table_.notes.push_back(
          Cat(recipe.empty() ? "source" : recipe, ": left out: ", added.error().message));
    }
    if (table_.rows.empty()) {
      return Error{Code::kInvalidArgument,
                   "--sweep: expected a number of groups and a recipe that "
                   "the model can have, found none",
                   table_.notes.empty() ? "" : table_.notes.back()};
    }
    SHARD_CHECK(AddCapture());
    SHARD_CHECK(AddDamage());
    Order();
    return std::move(table_);
  }

 private:
  Status AddRecipe(const std::string& recipe) {
    SHARD_TRY(const NodeSizer sizer, NodeSizer::Make(model_, TypesOf(recipe)));
    for (const std::string& note : sizer.notes()) Note(note);
    const Extent extent = ExtentOf(model_, sizer);
    std::optional<NodeNeed> fitting;
    if (options_.budget) {
      const auto fits = FitNodes(model_, sizer, {*options_.budget}, options_.extras, 0);
      // Usually an error says that not even top-k experts fit, and the rows show that. Any other
      // one is met again by Row.
      if (fits) fitting = fits->front().need;
    }
    // Kept apart until all are made, so that a recipe that fails leaves none behind.
    std::vector<SweepRow> rows;
    for (const uint32_t groups : options_.groups) {
      const uint32_t share = (extent.experts + groups - 1) / groups;
      if (const std::string why = WhyNot(groups, share, extent); !why.empty()) {
        Note(Cat(Plural(groups, "group"), ": left out: ", why));
        continue;
      }
      SHARD_TRY(SweepRow row, Row(sizer, extent, share, fitting));
      row.recipe = recipe;
      row.groups = groups;
      row.fits =
          !options_.budget || (fitting && uint64_t{fitting->eligible} * groups >= extent.experts);
      rows.push_back(std::move(row));
    }
    table_.rows.insert(table_.rows.end(), rows.begin(), rows.end());
    return Ok();
  }

  // Adds a note once, however many recipes cause it.
  void Note(std::string note) {
    const bool said =
        std::find(table_.notes.begin(), table_.notes.end(), note) != table_.notes.end();
    if (!said) table_.notes.push_back(std::move(note));
  }

  // "" for a number of groups that the model can have.
  std::string WhyNot(uint32_t groups, uint32_t share, const Extent& extent) const {
    if (groups > extent.experts)
      return Cat(extent.experts == 1 ? "there is " : "there are ", Plural(extent.experts, "expert"),
                 " in the smallest layer");
    // With a budget a node holds as many experts as fit, and at least top-k of them.
    if (options_.budget || share >= extent.top_k) return "";
    return Cat("each would hold ", share, " of ", Plural(extent.experts, "expert"),
               " per layer, and a token uses ", extent.top_k);
  }

  Status AddCapture() {
    if (!options_.capture) return Ok();
    uint32_t most = 0;
    for (const SweepRow& row : table_.rows) most = std::max(most, row.groups);
    SHARD_TRY(const ExpectedCapture capture, options_.capture(most));
    for (SweepRow& row : table_.rows) row.capture = capture(row.groups, row.need.eligible);
    return Ok();
  }

  Status AddDamage() {
    if (!options_.damage) return Ok();
    std::map<std::string, double> damages = {{"", 0}};
    for (SweepRow& row : table_.rows) {
      auto known = damages.find(row.recipe);
      if (known == damages.end()) {
        SHARD_TRY(const double damage, options_.damage(row.recipe));
        known = damages.emplace(row.recipe, damage).first;
      }
      row.damage = known->second;
    }
    return Ok();
  }

  // What the node needs with all experts that fit it, or else with its share of the experts.
  Result<SweepRow> Row(const NodeSizer& sizer, const Extent& extent, uint32_t share,
                       const std::optional<NodeNeed>& fitting) const {
    SweepRow row;
    row.need.eligible = std::max(share, extent.top_k);
    if (fitting && fitting->eligible >= share) {
      row.need = *fitting;
      return row;
    }
    row.need.extras = options_.extras;
    SHARD_TRY(row.need.weights, sizer.NodeOf(row.need.eligible));
    return row;
  }

  void Order() {
    if (!options_.budget && !options_.capture && !options_.damage) return;
    // Where more is better, values are negated; the total is unsigned and is counted down instead.
    const bool budget = options_.budget.has_value();
    const auto key = [budget](const SweepRow& row) {
      return std::make_tuple(!row.fits, budget ? row.groups : 0, -row.capture.value_or(0),
                             row.damage.value_or(0), -int64_t{row.need.eligible},
                             UINT64_MAX - row.need.weights.total(), row.groups);
    };
    std::stable_sort(table_.rows.begin(), table_.rows.end(),
                     [&](const SweepRow& a, const SweepRow& b) { return key(a) < key(b); });
  }

  const MoeModel& model_;
  const SweepOptions& options_;
  SweepTable table_;
};

}  // namespace

Result<SweepTable> Sweep(const MoeModel& model, const SweepOptions& options) {
  return Sweeper(model, options).Run();
}

}  // namespace moepack
