// What sessions find on their node: capture by bucket, by session, and as the plan expects it.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "libshard/base/text/text.h"
#include "libshard/stats/quantile.h"
#include "tools/page/html.h"
#include "tools/page/section.h"
#include "tools/page/svg.h"

namespace moepack::cli {
namespace {

constexpr double kCaptureWidth = 760, kCaptureLeft = 150, kCaptureRight = 60, kCaptureTop = 6,
                 kCaptureRow = 26, kCaptureAxis = 24;

// Goes from the tenth below the smallest share drawn to 1.
class CaptureAxis {
 public:
  explicit CaptureAxis(double least)
      : start_(std::clamp(std::floor(least * 10 - 0.2) / 10, 0.0, 0.9)) {}
  double At(double share) const {
    const double room = kCaptureWidth - kCaptureLeft - kCaptureRight;
    return kCaptureLeft + room * (std::max(share, start_) - start_) / (1 - start_);
  }
  void Draw(double height, Svg& svg) const {
    const int start = static_cast<int>(std::lround(start_ * 100));
    for (int percent = 100; percent >= start; percent -= start < 50 ? 20 : 10) {
      svg.Line(At(percent / 100.0), kCaptureTop, At(percent / 100.0), height, "grid");
      svg.Text(At(percent / 100.0), height + 16, Cat(percent, " %"), "m quiet");
    }
  }

 private:
  double start_;
};

// Buckets named in one sentence.
constexpr size_t kMostNamed = 6;

std::string CellText(double share) { return Fixed(100 * share, 0) + " %"; }

// ---- By bucket, from statistics

// The share of a session's score on what each node may pick from, averaged over layers.
std::vector<double> CapturesOf(const PageInputs& inputs, const std::vector<double>& sums) {
  std::vector<double> captures;
  for (size_t g = 0; g < inputs.plan->groups.size(); ++g) {
    std::vector<double> shares;
    for (size_t i = 0; i < inputs.scores->layers.size(); ++i) {
      const MoeLayerShape& shape = inputs.scores->layers[i];
      const auto first = sums.begin() + static_cast<ptrdiff_t>(inputs.scores->Offset(i));
      const double all = std::accumulate(first, first + shape.expert_count, 0.0);
      double held = 0;
      for (const uint32_t id : Eligible(*inputs.plan, g, shape.layer)) held += first[id];
      if (all > 0) shares.push_back(held / all);
    }
    captures.push_back(Mean(shares));
  }
  return captures;
}

std::vector<std::string> NodeNames(const PageInputs& inputs) {
  std::vector<std::string> names;
  for (size_t g = 0; g < inputs.plan->groups.size(); ++g) names.push_back(Cat("node ", g));
  return names;
}

std::string ByBucket(const PageInputs& inputs, std::vector<std::string>& findings) {
  std::vector<std::pair<std::string, std::vector<size_t>>> buckets;
  for (size_t i = 0; i < inputs.scores->sessions.size(); ++i) {
    const std::string& bucket = inputs.scores->sessions[i].bucket;
    const auto found = std::find_if(buckets.begin(), buckets.end(),
                                    [&](const auto& entry) { return entry.first == bucket; });
    if (found == buckets.end())
      buckets.push_back({bucket, {i}});
    else
      found->second.push_back(i);
  }
  PageMatrix matrix{"Share of each bucket's router mass on each node",
                    "share on the node",
                    "bucket",
                    NodeNames(inputs),
                    {},
                    {},
                    1,
                    CellText};
  std::vector<std::string> headings = {"bucket", ">sessions"};
  for (const std::string& node : matrix.columns) headings.push_back(">" + node);
  HtmlTable table("table-buckets", "Share of each bucket's router mass on each node", headings);
  std::vector<std::string> found;
  for (const auto& [bucket, sessions] : buckets) {
    matrix.rows.push_back(bucket.empty() ? "(no bucket)" : bucket);
    const std::vector<double> captures = CapturesOf(inputs, SumOfScores(*inputs.scores, sessions));
    matrix.values.insert(matrix.values.end(), captures.begin(), captures.end());
    std::vector<std::string> cells = {matrix.rows.back(), FormatCount(sessions.size())};
    for (const double capture : captures) cells.push_back(Percent(capture));
    table.Row(cells);
    const auto best = std::max_element(captures.begin(), captures.end());
    found.push_back(Cat("those of <b>", Escaped(matrix.rows.back()), "</b> find ", Percent(*best),
                        " on node ", best - captures.begin()));
  }
  if (found.size() > 1 && found.size() <= kMostNamed)
    findings.push_back(Cat("Of the sessions' router mass, ", moepack::Join(found, ", "), "."));
  return "<h3>By bucket</h3>\n" +
         Figure(MatrixPicture(matrix),
                "From the statistics: how much of what a bucket's sessions use lies on each node, "
                "the mean over layers.",
                table);
}

// ---- As the plan expects it

struct Expected {
  std::string name;
  CaptureSummary summary;
};

std::vector<Expected> ExpectedOf(const PlanExpectation& expectation) {
  std::vector<Expected> rows = {{"this plan", expectation.overall}};
  if (expectation.groups.size() > 1) {
    for (size_t g = 0; g < expectation.groups.size(); ++g)
      rows.push_back({Cat("node ", g), expectation.groups[g]});
  }
  rows.push_back({"runs of ids", expectation.contiguous});
  rows.push_back({"same set everywhere", expectation.same});
  rows.push_back({"no plan can beat", expectation.oracle});
  return rows;
}

std::string ByExpectation(const PlanExpectation& expectation, std::vector<std::string>& findings) {
  const std::vector<Expected> rows = ExpectedOf(expectation);
  const size_t drawn = std::min(rows.size(), kMostRows);
  const double height = kCaptureTop + kCaptureRow * static_cast<double>(drawn);
  Svg svg(kCaptureWidth, height + kCaptureAxis,
          "Expected capture of sessions: fifth percentile to mean");
  double lowest = 1;
  for (const Expected& row : rows) {
    if (row.summary.sessions > 0) lowest = std::min(lowest, row.summary.p5);
  }
  const CaptureAxis axis(lowest);
  axis.Draw(height, svg);
  HtmlTable table("table-expected", "Capture that the statistics predict",
                  {"sets of experts", ">sessions", ">mean", ">5th percentile", ">25th percentile"});
  for (size_t i = 0; i < rows.size(); ++i) {
    const CaptureSummary& summary = rows[i].summary;
    table.Row({rows[i].name, FormatCount(summary.sessions), Percent(summary.mean),
               Percent(summary.p5), Percent(summary.p25)});
    if (i >= drawn) continue;
    const double y = kCaptureTop + kCaptureRow * (static_cast<double>(i) + 0.5);
    const std::string kind = i == 0 ? "k1" : "k0";
    svg.Text(kCaptureLeft - 10, y + 4, rows[i].name, i == 0 ? "e strong" : "e");
    if (summary.sessions == 0) {
      svg.Text(kCaptureLeft + 8, y + 4, "no session would go there", "quiet");
      continue;
    }
    svg.Line(axis.At(summary.p5), y, axis.At(summary.mean), y, "range");
    svg.Line(axis.At(summary.p25), y, axis.At(summary.mean), y, "range wide");
    svg.Circle(axis.At(summary.mean), y, 5, kind,
               Cat(rows[i].name, ": mean ", Percent(summary.mean), ", 5th percentile ",
                   Percent(summary.p5)));
    svg.Text(axis.At(summary.mean) + 10, y + 4, CellText(summary.mean));
  }
  const char* on =
      expectation.held_out > 0 ? "held-out sessions" : "sessions that the plan was made from";
  findings.push_back(Cat("By the statistics a session finds <b>", Percent(expectation.overall.mean),
                         "</b> of its router mass on its node (", on,
                         "; with the same experts on every node: ", Percent(expectation.same.mean),
                         ")."));
  return "<h3>As the plan expects it</h3>\n" +
         Figure(svg.Render(),
                Cat("Measured on ", FormatCount(expectation.overall.sessions), " ", on,
                    ", each on the node that has most of it, beside other sets of the same size. "
                    "The dot is the mean; lines begin at the 5th and, wide, at the 25th "
                    "percentile."),
                table);
}

// ---- By session, from evaluations

std::string BySession(const PageEvaluation& evaluation, size_t number,
                      std::vector<std::string>& findings) {
  const runtime::EvalSummary& summary = evaluation.report.summary;
  std::vector<std::string> headings = {"session", "bucket", ">tokens", "captures most"};
  for (const runtime::EvalRow& group : summary.groups) headings.push_back(">" + group.label);
  HtmlTable table(Cat("table-sessions-", number), "Captured gate mass of each session", headings);
  const size_t drawn = std::min(summary.groups.size(), kMostRows);
  const double height = kCaptureTop + kCaptureRow * static_cast<double>(drawn);
  Svg svg(kCaptureWidth, height + kCaptureAxis, "Captured gate mass of each session on each node");
  double lowest = 1;
  for (const runtime::SessionChoice& session : summary.sessions)
    lowest = std::min(lowest, *std::min_element(session.captures.begin(), session.captures.end()));
  const CaptureAxis axis(lowest);
  axis.Draw(height, svg);
  for (size_t g = 0; g < drawn; ++g)
    svg.Text(kCaptureLeft - 10, kCaptureTop + kCaptureRow * (static_cast<double>(g) + 0.5) + 4,
             summary.groups[g].label, "e");
  for (size_t s = 0; s < summary.sessions.size(); ++s) {
    const runtime::SessionChoice& session = summary.sessions[s];
    std::vector<std::string> cells = {session.name, session.bucket, FormatCount(session.tokens),
                                      summary.groups[session.by_capture].label};
    for (size_t g = 0; g < session.captures.size(); ++g) {
      cells.push_back(Percent(session.captures[g]));
      if (g >= drawn) continue;
      const bool best = g == session.by_capture;
      // The sessions of a row are drawn on three lines, so that dots cover each other less.
      const double y = kCaptureTop + kCaptureRow * (static_cast<double>(g) + 0.5) +
                       6 * (static_cast<double>(s % 3) - 1);
      svg.Circle(
          axis.At(session.captures[g]), y, best ? 4 : 3, best ? "k1 ring" : "hollow",
          Cat(session.name, ", ", summary.groups[g].label, ": ", Percent(session.captures[g])));
    }
    table.Row(cells);
  }
  if (summary.best_by_capture)
    findings.push_back(Cat("In ", Escaped(evaluation.name), " a session captures <b>",
                           Percent(summary.best_by_capture->capture),
                           "</b> of its gate mass on the node that suits it best."));
  std::vector<LegendEntry> legend = {
      {"k1 round", "a session on the node that captures most of it"}};
  if (drawn > 1) legend.push_back({"key-hollow", "the same session on the others"});
  return Cat("<h3>By session: ", Escaped(evaluation.name), "</h3>\n", Legend(legend),
             Figure(svg.Render(),
                    "Share of the gates that the whole model applies which falls on experts that "
                    "the node has, the mean over layers and tokens; one dot per session and node.",
                    table));
}

}  // namespace

std::optional<PageSection> CaptureSection(const PageInputs& inputs) {
  PageSection section{"capture", "What sessions find on their node", ""};
  if (inputs.scores && inputs.plan) section.body += ByBucket(inputs, section.findings);
  if (inputs.plan && inputs.plan->expectation)
    section.body += ByExpectation(*inputs.plan->expectation, section.findings);
  size_t number = 0;
  for (const PageEvaluation& evaluation : inputs.evaluations) {
    ++number;
    if (!evaluation.report.summary.sessions.empty())
      section.body += BySession(evaluation, number, section.findings);
  }
  if (section.body.empty()) return std::nullopt;
  return section;
}

}  // namespace moepack::cli
