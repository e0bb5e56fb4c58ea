#include <nlohmann/json.hpp>

#include "runtime-shim/eval/yardstick.h"
#include "tools/reports/runs/eval_report.h"

namespace moepack::cli {
namespace {

template <class T, class F>
Json OrNull(const std::optional<T>& value, const F& to_json) {
  return value ? to_json(*value) : Json(nullptr);
}

Json LikelihoodJson(const runtime::Likelihood& likelihood) {
  return {{"tokens", likelihood.tokens},
          {"log_probability", likelihood.log_probability},
          {"perplexity", likelihood.perplexity},
          {"perplexity_error", likelihood.perplexity_error}};
}

Json DamageJson(const runtime::Damage& damage) {
  return {{"kld",
           {{"mean", damage.mean},
            {"error", damage.error},
            {"median", damage.median},
            {"p90", damage.p90},
            {"p99", damage.p99},
            {"p99_9", damage.p999},
            {"largest", damage.largest}}},
          {"top1", damage.top1},
          {"ppl_ratio", damage.perplexity_ratio},
          {"ppl_ratio_error", damage.perplexity_ratio_error},
          {"yardstick", runtime::Yardstick(damage.mean)}};
}

Json LoopJson(const runtime::LoopRate& loops) {
  return {{"sessions", loops.sessions},
          {"looping", loops.looping},
          {"rate", loops.rate()},
          {"repeated_share", loops.repeated_share}};
}

Json CalibrationJson(const CalibrationKeys& keys) {
  return {{"version", keys.version},
          {"method", keys.method},
          {"texts", keys.texts},
          {"tokens", keys.tokens}};
}

Json BaseJson(const runtime::EvalBase& base) {
  Json json = LikelihoodJson(base.likelihood);
  json["loops"] = OrNull(base.loops, LoopJson);
  return json;
}

Json SpreadJson(const runtime::CaptureSpread& spread) {
  return {{"mean", spread.mean}, {"p5", spread.p5}, {"p25", spread.p25}};
}

Json CaptureJson(const EvalReport& report, const runtime::EvalRow& row) {
  Json layers = Json::array();
  for (size_t i = 0; i < report.summary.layers.size(); ++i) {
    layers.push_back({{"layer", report.summary.layers[i]},
                      {"teacher", SpreadJson(row.teacher[i])},
                      {"on_policy", SpreadJson(row.on_policy[i])}});
  }
  return {{"mean", row.capture},
          {"on_policy_mean", row.on_policy_capture},
          {"layers", std::move(layers)}};
}

Json RowJson(const EvalReport& report, const runtime::EvalRow& row) {
  Json json = {{"label", row.label}, {"sessions", row.sessions}};
  json.update(LikelihoodJson(row.likelihood));
  json["split"] = OrNull(row.split, DamageJson);
  json["total"] = OrNull(row.total, DamageJson);
  json["capture"] = CaptureJson(report, row);
  json["loops"] = OrNull(row.loops, LoopJson);
  return json;
}

Json GroupsJson(const EvalReport& report) {
  Json groups = Json::array();
  for (size_t i = 0; i < report.summary.groups.size(); ++i) {
    const runtime::Assignment& assignment = report.summary.assignments[i];
    Json group = RowJson(report, report.summary.groups[i]);
    group["assigned"] = {{"sessions", assignment.sessions},
                         {"capture", assignment.assigned},
                         {"capture_of_others", assignment.others}};
    groups.push_back(std::move(group));
  }
  return groups;
}

Json PlacedJson(const runtime::EvalSummary& summary, const runtime::SessionChoice& session) {
  const PlacementAnswer& answer = *session.placed;
  return {{"group", answer.best},
          {"label", session.by_table ? Json(summary.groups[*session.by_table].label) : Json()},
          {"margin", answer.margin},
          {"sure", answer.sure},
          {"tokens", answer.tokens},
          {"known_share", answer.known_share}};
}

Json SessionsJson(const runtime::EvalSummary& summary) {
  Json sessions = Json::array();
  for (const runtime::SessionChoice& session : summary.sessions) {
    sessions.push_back({{"session", session.name},
                        {"bucket", session.bucket},
                        {"tokens", session.tokens},
                        {"captures", session.captures},
                        {"by_capture", summary.groups[session.by_capture].label},
                        {"divergences", session.divergences},
                        {"by_kld", summary.groups[session.by_kld].label},
                        {"race",
                         {{"winner", summary.groups[session.race.winner].label},
                          {"tokens", session.race.tokens},
                          {"margin", session.race.margin}}}});
    if (session.placed) sessions.back()["placed"] = PlacedJson(summary, session);
  }
  return sessions;
}

Json RulesJson(const runtime::EvalSummary& summary) {
  if (summary.rules.empty()) return nullptr;
  Json rules = Json::array();
  for (const runtime::RuleFigures& rule : summary.rules) {
    rules.push_back(
        {{"rule", rule.rule},
         {"sessions", rule.sessions},
         {"accuracy", rule.accuracy},
         {"regret", rule.regret},
         {"sure", OrNull(rule.sure, [](uint64_t count) { return Json(count); })},
         {"sure_right", OrNull(rule.sure_right, [](uint64_t count) { return Json(count); })}});
  }
  return rules;
}

// Over all sessions; the two may differ.
Json BestGroupsJson(const runtime::EvalSummary& summary) {
  if (summary.groups.empty()) return nullptr;
  return {{"capture", summary.groups[summary.most_capture].label},
          {"kld", summary.groups[summary.least_kld].label}};
}

}  // namespace

Json EvalJson(const EvalReport& report) {
  const manifest::Versions& versions = report.versions;
  const runtime::EvalSummary& summary = report.summary;
  const auto row_json = [&](const runtime::EvalRow& row) { return RowJson(report, row); };
  return {{"format", kEvaluationFormat},
          {"version", kEvaluationVersion},
          {"executor", report.executor},
          {"precision", report.precision},
          {"versions", report.distribution ? Json{{"model", versions.model},
                                                  {"shard", versions.shard},
                                                  {"replica", versions.replica}}
                                           : Json(nullptr)},
          {"calibrated", OrNull(report.calibrated, CalibrationJson)},
          {"context", report.context},
          {"scored", report.score_half ? "second half" : "all but the first"},
          {"reference", OrNull(summary.reference, BaseJson)},
          {"unmasked", OrNull(summary.full, BaseJson)},
          {"quantization", OrNull(summary.quantization, DamageJson)},
          {"groups", GroupsJson(report)},
          {"best", OrNull(summary.best_by_capture, row_json)},
          {"best_by_kld", OrNull(summary.best_by_kld, row_json)},
          {"best_groups", BestGroupsJson(summary)},
          {"race_winner", OrNull(summary.raced, row_json)},
          {"sessions", SessionsJson(summary)},
          {"race_agreements", summary.agreements},
          {"kld_agreements", summary.kld_agreements},
          {"placement", RulesJson(summary)},
          {"quality", OrNull(report.quality, manifest::QualityToJson)},
          {"failed_gates", report.failed}};
}

}  // namespace moepack::cli
