#include "tools/reports/planning/fit_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/table.h"
#include "tools/reports/planning/budget_report.h"

namespace moepack::cli {
namespace {

std::string RestText(uint64_t budget, uint64_t total) {
  return total > budget ? "-" + FormatBytes(total - budget) : FormatBytes(budget - total);
}

Json NeedJson(const NodeNeed& need) {
  return {{"experts_per_layer", need.eligible},
          {"head", need.weights.head},
          {"trunk", need.weights.trunk},
          {"experts", need.weights.experts},
          {"cache", need.extras.cache},
          {"buffers", need.extras.buffers},
          {"total", need.total()}};
}

std::string FormatName(const std::string& recipe) { return recipe.empty() ? "source" : recipe; }

bool SameNode(const SweepRow& a, const SweepRow& b) {
  return a.fits && b.fits && a.recipe == b.recipe && a.need.eligible == b.need.eligible &&
         a.need.total() == b.need.total() && a.capture == b.capture;
}

// The rows without those that a smaller number of groups gives, too.
std::vector<SweepRow> DistinctRows(const SweepTable& table, const SweepOptions& options) {
  std::vector<SweepRow> distinct;
  for (const SweepRow& row : table.rows) {
    const bool shown =
        options.budget && std::any_of(distinct.begin(), distinct.end(),
                                      [&](const SweepRow& other) { return SameNode(row, other); });
    if (!shown) distinct.push_back(row);
  }
  return distinct;
}

}  // namespace

std::string CacheUseText(const CacheUse& use) {
  return Cat(Plural(use.sessions, "session"), " of ", FormatCount(use.context), " tokens in ",
             use.type->name);
}

std::string FitText(const std::vector<NodeFit>& fits, const CacheUse& use) {
  const bool budgets =
      std::any_of(fits.begin(), fits.end(), [](const NodeFit& fit) { return fit.budget > 0; });
  std::vector<std::string> headings = {">node",  ">experts per layer", ">trunk", ">experts",
                                       ">cache", ">buffers",           ">total"};
  if (budgets) headings.insert(headings.end(), {">machine", ">free"});
  Table table(headings);
  for (size_t node = 0; node < fits.size(); ++node) {
    const NodeNeed& need = fits[node].need;
    table.Cell(node);
    table.Cell(uint64_t{need.eligible});
    for (const uint64_t bytes : {need.weights.head + need.weights.trunk, need.weights.experts,
                                 need.extras.cache, need.extras.buffers, need.total()}) {
      table.Cell(FormatBytes(bytes));
    }
    if (!budgets) continue;
    table.Cell(FormatBytes(fits[node].budget));
    table.Cell(RestText(fits[node].budget, need.total()));
  }
  return Cat("memory of each node, with a cache for ", CacheUseText(use), "\n", table.Render());
}

Json FitJson(const std::vector<NodeFit>& fits, const CacheUse& use) {
  Json nodes = Json::array();
  for (const NodeFit& fit : fits) {
    Json node = NeedJson(fit.need);
    if (fit.budget > 0) node["machine"] = fit.budget;
    nodes.push_back(std::move(node));
  }
  return {{"context", use.context},
          {"sessions", use.sessions},
          {"kv_type", use.type->name},
          {"nodes", std::move(nodes)}};
}

std::string StagesText(const std::vector<StageNeed>& stages) {
  const bool budgets = std::any_of(stages.begin(), stages.end(),
                                   [](const StageNeed& need) { return need.budget > 0; });
  std::vector<std::string> headings = {">stage", "layers",   ">weights",
                                       ">cache", ">buffers", ">total"};
  if (budgets) headings.insert(headings.end(), {">machine", ">free"});
  Table table(headings);
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const StageNeed& need = stages[stage];
    table.Cell(stage);
    table.Cell(Cat(need.range.first_layer, "-", need.range.last_layer));
    for (const uint64_t bytes : {need.weights, need.cache, need.buffers, need.total()}) {
      table.Cell(FormatBytes(bytes));
    }
    if (!budgets) continue;
    table.Cell(FormatBytes(need.budget));
    table.Cell(RestText(need.budget, need.total()));
  }
  return "stages of each node, one machine each\n" + table.Render();
}

Json StagesJson(const std::vector<StageNeed>& stages) {
  Json out = Json::array();
  for (const StageNeed& need : stages) {
    Json stage = {{"layers", {{"first", need.range.first_layer}, {"last", need.range.last_layer}}},
                  {"weights", need.weights},
                  {"cache", need.cache},
                  {"buffers", need.buffers},
                  {"total", need.total()}};
    if (need.budget > 0) stage["machine"] = need.budget;
    out.push_back(std::move(stage));
  }
  return out;
}

std::string SweepText(const SweepTable& table, const SweepOptions& options) {
  const bool capture = std::any_of(table.rows.begin(), table.rows.end(),
                                   [](const SweepRow& row) { return row.capture.has_value(); });
  const bool damage = std::any_of(table.rows.begin(), table.rows.end(),
                                  [](const SweepRow& row) { return row.damage.has_value(); });
  std::vector<std::string> headings = {">groups", "recipe", ">experts per layer", ">weights",
                                       ">total"};
  if (options.budget) headings.emplace_back("fits");
  if (capture) headings.emplace_back(">capture");
  if (damage) headings.emplace_back(">damage");
  Table out(headings);
  for (const SweepRow& row : DistinctRows(table, options)) {
    out.Cell(uint64_t{row.groups});
    out.Cell(FormatName(row.recipe));
    out.Cell(uint64_t{row.need.eligible});
    out.Cell(FormatBytes(row.need.weights.total()));
    out.Cell(FormatBytes(row.need.total()));
    if (options.budget) out.Cell(row.fits ? "yes" : "no");
    if (capture) out.Cell(row.capture ? FixedPoint(*row.capture * 100) + " %" : "-");
    if (damage) out.Cell(row.damage ? FormatDamage(*row.damage) : "-");
  }
  return "bytes of one node\n" + out.Render();
}

std::string SweepLine(const SweepTable& table, const SweepOptions& options) {
  const SweepRow& best = table.rows.front();
  if (options.budget && !best.fits) return "nothing fits";
  return Cat(options.budget ? "best: " : "first: ", Plural(best.groups, "group"), " with ",
             FormatName(best.recipe), ", ", Plural(best.need.eligible, "expert"), " per layer, ",
             FormatBytes(best.need.total()));
}

Json SweepJson(const SweepTable& table, const SweepOptions& options) {
  Json rows = Json::array();
  for (const SweepRow& row : table.rows) {
    Json json = {{"groups", row.groups}, {"recipe", FormatName(row.recipe)}};
    json["node"] = NeedJson(row.need);
    if (options.budget) json["fits"] = row.fits;
    if (row.capture) json["capture"] = *row.capture;
    if (row.damage) json["damage"] = *row.damage;
    rows.push_back(std::move(json));
  }
  Json document = {{"rows", std::move(rows)}, {"notes", table.notes}};
  if (options.budget) document["machine"] = *options.budget;
  return document;
}

}  // namespace moepack::cli
