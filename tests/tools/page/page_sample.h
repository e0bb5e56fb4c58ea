// Hand-made inputs of a report, and helpers of the tests for its HTML.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tests/manifest/document/sample.h"
#include "tools/page/inputs.h"
#include "tools/page/section.h"

namespace moepack::cli {

// Two layers of six experts, as sample::MakePlan; sessions of "code" use the lower ids.
inline ExpertScores SomeScores() {
  ExpertScores scores;
  scores.format = "moepack-statistics";
  scores.digest = std::string(32, 'd');
  scores.basis = ScoreBasis::kGateMass;
  scores.layers = {{1, 6, 2}, {2, 6, 2}};
  scores.sessions = {{"s0", "code", 10, {6, 2, 1, 1, 0, 0, 4, 4, 2, 0, 0, 0}},
                     {"s1", "prose", 10, {0, 0, 1, 1, 2, 6, 0, 0, 0, 2, 4, 4}}};
  return scores;
}

inline manifest::DamageFigures SomeDamage(double kld) {
  return {{kld, kld / 10}, {kld / 2, kld / 20}, {0.75, 0.03}};
}

inline manifest::QualityRecord SomeQuality() {
  const auto figures = [](double kld) {
    manifest::QualityFigures out{2, 100, {3.25, 0.125}, std::nullopt, std::nullopt};
    out.split = SomeDamage(kld);
    return out;
  };
  manifest::QualityRecord record;
  record.tool_version = "1.2.3";
  record.tokens_sha256 = std::string(64, 'a');
  record.sessions = 2;
  record.tokens = 100;
  manifest::QualityFigures full{2, 100, {3, 0.125}, std::nullopt, SomeDamage(0.0124)};
  record.unmasked = manifest::QualityRow{full, {}};
  record.groups = {{0, {figures(0.3), {{"code", figures(0.2)}, {"prose", figures(0.4)}}}},
                   {1, {figures(0.7), {{"code", figures(0.9)}, {"prose", figures(0.5)}}}}};
  record.best = {figures(0.25), {{"code", figures(0.2)}, {"prose", figures(0.35)}}};
  return record;
}

inline runtime::EvalRow EvalRowOf(const std::string& label) {
  runtime::EvalRow row;
  row.label = label;
  row.sessions = 2;
  row.likelihood = {100, -3.25, 25.8, 1.5};
  row.split = runtime::Damage{0.3, 0.03, 0.2, 0.5, 0.9, 1.1, 2, 0.75, 1.2, 0.05};
  row.teacher = {{0.5, 0.1, 0.2}, {0.75, 0.3, 0.4}};
  row.on_policy = row.teacher;
  row.capture = 0.625;
  row.on_policy_capture = 0.5;
  return row;
}

// Group 0 suits "code", which every rule finds; the race is wrong about "prose".
inline EvalReport SomeEvaluation() {
  EvalReport report;
  report.executor = "cpu";
  report.precision = "bf16";
  report.context = 512;
  report.distribution = true;
  report.versions = {"0123456789abcdef", "1123456789abcdef", ""};
  report.quality = SomeQuality();
  runtime::EvalSummary& summary = report.summary;
  summary.layers = {1, 2};
  summary.full = runtime::EvalBase{{100, -3, 20, 1}, std::nullopt};
  summary.groups = {EvalRowOf("group 0"), EvalRowOf("group 1")};
  summary.best_by_capture = EvalRowOf("best by capture");
  summary.best_by_kld = EvalRowOf("best by KLD");
  summary.raced = EvalRowOf("race winner");
  summary.assignments = {{1, 0.8, 0.4}, {1, 0.7, 0.3}};
  summary.sessions = {{"s0", "code", 60, {0.8, 0.3}, 0, {0.2, 0.9}, 0, {0, 32, 0.5}, {}, {}},
                      {"s1", "prose", 40, {0.4, 0.7}, 1, {0.8, 0.5}, 1, {0, 32, 0.1}, {}, {}}};
  return report;
}

inline RefitRecord SomeRefit() {
  RefitRecord record;
  record.steps = {"ridge", "router"};
  record.parameters = {{"lambda", "0.01"}};
  record.calibration = {{"a.txt", "code", std::string(64, 'e'), 5000}};
  record.outcomes = {
      {1, 0, true, 0.4, 0.1, 12, {900, 700}, {0, 1}, {"down", "router"}, std::string(64, 'f')},
      {1, 1, false, 0.3, 0.35, 0, {800}, {}, {}, ""},
      {2, 0, true, 0.6, 0.2, 5, {}, {0, 1}, {"down", "router"}, std::string(64, 'f')}};
  return record;
}

inline CalibratedRecord SomeCalibration() {
  CalibratedRecord record;
  record.layer_count = 2;
  record.parameters = {{"method", "feedback-1"}, {"shrink", "1"}};
  record.calibration = {{"a.txt", "code", std::string(64, 'e'), 5000, {}, TakenText{4000, 2, 3}}};
  for (uint32_t layer = 0; layer <= 2; ++layer) {
    CalibratedOutcome& outcome = record.layers.emplace_back();
    outcome.layer = layer;
    outcome.matrices = layer == 2 ? 1 : 20;
    outcome.accepted = layer == 2 ? 1 : 15;
    outcome.few_tokens = layer == 2 ? 0 : 3;
    outcome.worse = layer == 2 ? 0 : 2;
    outcome.error_plain = 8;
    outcome.error = 5 - layer;
  }
  return record;
}

// Of a file without groups, whose quantization costs so much.
inline EvalReport SomeQuantization(double kld, bool calibrated) {
  EvalReport report;
  report.precision = "q4_K+f32";
  report.context = 512;
  report.summary.reference = runtime::EvalBase{{100, -3, 20, 1}, std::nullopt};
  report.summary.full = runtime::EvalBase{{100, -3 - kld, 20, 1}, std::nullopt};
  report.summary.quantization =
      runtime::Damage{kld, kld / 10, 0.2, 0.5, 0.9, 1.1, 2, 0.75, 1.2, 0.05};
  if (calibrated)
    report.calibrated =
        CalibrationKeys{std::string(16, 'c'), "feedback-1", std::string(64, 'e'), 4000};
  return report;
}

// A distribution with everything that a report shows.
inline PageInputs FullInputs() {
  PageInputs inputs;
  inputs.distribution = sample::Make().manifest;
  inputs.distribution_path = "out";
  inputs.plan = inputs.distribution->plan;
  inputs.scores = SomeScores();
  inputs.score_paths = {"statistics.json"};
  inputs.evaluations = {{"evaluation.json", SomeEvaluation()}};
  inputs.refits = {SomeRefit()};
  inputs.calibrations = {SomeCalibration()};
  inputs.files = {{"out", "distribution", std::string(64, '1')},
                  {"statistics.json", "statistics", std::string(64, '2')}};
  return inputs;
}

// The cells of the table `id`, row by row; the first row holds its headings.
inline std::vector<std::vector<std::string>> TableOf(const std::string& html,
                                                     const std::string& id) {
  std::vector<std::vector<std::string>> rows;
  const size_t start = html.find("<table id=\"" + id + "\">");
  if (start == std::string::npos) return rows;
  const std::string table = html.substr(start, html.find("</table>", start) - start);
  for (size_t row = 0; (row = table.find("<tr>", row)) != std::string::npos; ++row) {
    rows.emplace_back();
    const size_t end = table.find("</tr>", row);
    for (size_t cell = row + 4; cell < end; ++cell) {
      const size_t open = std::min(table.find("<th", cell), table.find("<td", cell));
      if (open >= end) break;
      const size_t text = table.find('>', open) + 1;
      cell = table.find("</t", text);
      rows.back().push_back(table.substr(text, cell - text));
    }
  }
  return rows;
}

inline size_t CountOf(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; ++at) ++count;
  return count;
}

}  // namespace moepack::cli
