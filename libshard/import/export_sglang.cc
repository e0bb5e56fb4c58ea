// For SGLang's --init-expert-location, and for ktransformers, which takes the same file:
// "logical_count" [layers][experts], or "physical_to_logical_map" [layers][slots] of a plan, where
// each group is one rank of expert parallelism. SGLang has a row for every block, so blocks without
// experts get zeros, or in a placement the trivial order.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "libshard/import/export.h"

namespace moepack {
namespace {

Result<uint32_t> OneExpertCount(const ExpertScores& scores) {
  const uint32_t expected = scores.layers.front().expert_count;
  for (const MoeLayerShape& layer : scores.layers) {
    if (layer.expert_count == expected) continue;
    return Error{
        Code::kUnsupported,
        Cat("layer ", layer.layer, ": experts: expected the ", expected,
            " of the first layer, because the format is one table, found ", layer.expert_count)};
  }
  return expected;
}

// Rows by block; `fill` is used for blocks without experts.
Json BlockRows(const ExpertScores& scores, const Json& fill, std::vector<Json> rows) {
  Json table = Json::array();
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    while (table.size() < scores.layers[i].layer) table.push_back(fill);
    table.push_back(std::move(rows[i]));
  }
  return table;
}

Result<std::string> WriteLogicalCount(const ExpertScores& scores, const ExportOptions&) {
  SHARD_TRY(const uint32_t expert_count, OneExpertCount(scores));
  const std::vector<uint64_t> counts = WholeSums(scores);
  std::vector<Json> rows;
  for (size_t i = 0; i < scores.layers.size(); ++i) {
    Json& row = rows.emplace_back(Json::array());
    for (uint32_t e = 0; e < expert_count; ++e) row.push_back(counts[scores.Offset(i) + e]);
  }
  const Json zeros = std::vector<uint64_t>(expert_count);
  Json json = Json::object();
  json["logical_count"] = BlockRows(scores, zeros, std::move(rows));
  return WriteJson(json);
}

// The slots of one layer: what each group may pick, group after group.
Result<std::vector<uint32_t>> SlotsOf(const ExportOptions& options, const MoeLayerShape& layer) {
  const Plan& plan = *options.plan;
  std::vector<uint32_t> slots;
  std::vector<bool> placed(layer.expert_count);
  const size_t size = Eligible(plan, 0, layer.layer).size();
  for (size_t group = 0; group < plan.groups.size(); ++group) {
    const ExpertIds expert_ids = Eligible(plan, group, layer.layer);
    if (expert_ids.size() != size)
      return Error{
          Code::kInvalidArgument,
          Cat(options.plan_file, ": group ", group, ": layer ", layer.layer, ": expected the ",
              Plural(size, "expert"), " of group 0, because all ranks have as many slots, found ",
              expert_ids.size()),
          "plan with --uniform"};
    for (const uint32_t id : expert_ids) {
      if (id < placed.size()) placed[id] = true;
      slots.push_back(id);
    }
  }
  const auto missing = std::find(placed.begin(), placed.end(), false);
  if (missing == placed.end()) return slots;
  return Error{
      Code::kInvalidArgument,
      Cat(options.plan_file, ": layer ", layer.layer, ": expert ", missing - placed.begin(),
          ": expected in a group, because SGLang reaches every expert, found in none"),
      "plan again with a larger --eligible or another --partition than same; `moepack plan` "
      "warns of experts on no node"};
}

Result<std::string> WritePlacement(const ExpertScores& scores, const ExportOptions& options) {
  SHARD_TRY(const uint32_t expert_count, OneExpertCount(scores));
  const Plan& plan = *options.plan;
  std::vector<Json> rows;
  for (const MoeLayerShape& layer : scores.layers) {
    const auto found = plan.layers.find(layer.layer);
    if (found == plan.layers.end() || found->second != layer.expert_count)
      return Error{Code::kMismatch, Cat(options.plan_file, ": layer ", layer.layer, ": expected ",
                                        Plural(layer.expert_count, "expert"), ", found ",
                                        found == plan.layers.end() ? 0 : found->second)};
    SHARD_TRY(const std::vector<uint32_t> slots, SlotsOf(options, layer));
    if (!rows.empty() && rows.front().size() != slots.size())
      return Error{Code::kInvalidArgument, Cat(options.plan_file, ": layer ", layer.layer,
                                               ": expected ", Plural(rows.front().size(), "slot"),
                                               " as in the first layer, found ", slots.size())};
    rows.emplace_back(slots);
  }
  Json trivial = Json::array();
  for (size_t i = 0; i < rows.front().size(); ++i) trivial.push_back(i % expert_count);
  Json json = Json::object();
  json["physical_to_logical_map"] = BlockRows(scores, trivial, std::move(rows));
  return WriteJson(json);
}

}  // namespace

constinit const Exporter kSglangExporter = {
    "sglang",
    "counts for SGLang's --init-expert-location (JSON, logical_count)",
    ScoreBasis::kCount,
    false,
    false,
    WriteLogicalCount};

constinit const Exporter kKtransformersExporter = {
    "ktransformers",
    "the same file, which ktransformers takes for its expert placement",
    ScoreBasis::kCount,
    false,
    false,
    WriteLogicalCount};

constinit const Exporter kSglangPlacementExporter = {
    "sglang-placement",
    "a plan as SGLang's placement (JSON, physical_to_logical_map), a group per rank",
    ScoreBasis::kCount,
    false,
    true,
    WritePlacement};

}  // namespace moepack
