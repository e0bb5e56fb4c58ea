// The cost of the split, in KL divergence, compared to quantization.
#include <algorithm>
#include <cmath>

#include "libshard/base/text/text.h"
#include "manifest/document/made_from.h"
#include "runtime-shim/eval/yardstick.h"
#include "tools/page/html.h"
#include "tools/page/section.h"
#include "tools/page/svg.h"

namespace moepack::cli {
namespace {

using manifest::DamageFigures;
using manifest::QualityFigures;
using manifest::QualityRecord;
using manifest::QualityRow;

constexpr double kDamageWidth = 760, kDamageLeft = 190, kDamageRight = 70, kDamageTop = 34,
                 kDamageRow = 26, kDamageSpread = 12, kDamageDot = 6, kDamageAxis = 24;
// Start of the axis, which is logarithmic.
constexpr double kLeastKld = 0.0005;

// A dot for the mean, and a smaller one for each bucket. A bar would mean nothing on a logarithmic
// axis, which has no zero.
struct DamageLine {
  std::string name, css_class;
  DamageFigures damage;
  QualityFigures figures;
  std::vector<std::pair<std::string, double>> buckets;  // mean KLD
};

using WhichDamage = std::optional<DamageFigures> QualityFigures::*;

void AddLine(const std::string& name, const char* css_class, const QualityRow& row,
             WhichDamage which, std::vector<DamageLine>& lines) {
  if (!(row.all.*which)) return;
  DamageLine line{name, css_class, *(row.all.*which), row.all, {}};
  for (const auto& [bucket, figures] : row.buckets) {
    if (figures.*which)
      line.buckets.emplace_back(bucket.empty() ? "(no bucket)" : bucket,
                                (figures.*which)->kld.mean);
  }
  lines.push_back(std::move(line));
}

std::vector<DamageLine> LinesOf(const QualityRecord& record) {
  std::vector<DamageLine> lines;
  if (record.unmasked)
    AddLine("quantization alone", "k2", *record.unmasked, &QualityFigures::total, lines);
  AddLine("split, each on its node", "k1", record.best, &QualityFigures::split, lines);
  AddLine("both, each on its node", "k6", record.best, &QualityFigures::total, lines);
  for (const auto& [group, row] : record.groups) {
    const WhichDamage which = row.all.split ? &QualityFigures::split : &QualityFigures::total;
    AddLine(Cat("all sessions on node ", group), "k0", row, which, lines);
  }
  return lines;
}

class Axis {
 public:
  explicit Axis(double most) : decades_(std::log10(std::max(most, 1.0) * 1.3 / kLeastKld)) {}
  double At(double kld) const {
    const double share = std::log10(std::max(kld, kLeastKld) / kLeastKld) / decades_;
    return kDamageLeft + share * (kDamageWidth - kDamageLeft - kDamageRight);
  }

 private:
  double decades_;
};

// The marks are drawn in two rows, because some are close together.
void DrawMarks(const Axis& axis, double height, Svg& svg) {
  bool low = false;
  for (const runtime::YardstickMark& mark : runtime::YardstickMarks()) {
    const std::string name = mark.name;
    svg.Line(axis.At(mark.divergence), kDamageTop - 4, axis.At(mark.divergence), height, "mark");
    svg.Text(axis.At(mark.divergence), low ? kDamageTop - 8 : kDamageTop - 21,
             name.substr(name.find(' ') + 1), "m quiet");
    low = !low;
  }
  int digits = 3;
  for (const double tick : {0.001, 0.01, 0.1, 1.0}) {
    svg.Line(axis.At(tick), kDamageTop, axis.At(tick), height, "grid");
    svg.Text(axis.At(tick), height + 16, Fixed(tick, digits--), "m quiet");
  }
  svg.Text(kDamageLeft - 10, height + 16, "nats per token", "e quiet");
}

void DrawLine(const DamageLine& line, double y, const Axis& axis,
              const std::vector<std::string>& buckets, Svg& svg) {
  const manifest::MeanError& kld = line.damage.kld;
  const double middle = y + kDamageRow / 2;
  svg.Text(kDamageLeft - 10, middle + 4, line.name, "e");
  svg.Line(axis.At(kld.mean - kld.error), middle, axis.At(kld.mean + kld.error), middle, "whisker");
  svg.Circle(axis.At(kld.mean), middle, kDamageDot, line.css_class,
             Cat(line.name, ": ", FixedWithError(kld.mean, kld.error, 4), " nats per token"));
  double end = std::max(axis.At(kld.mean + kld.error), axis.At(kld.mean) + kDamageDot);
  for (const auto& [bucket, mean] : line.buckets) {
    const auto place =
        static_cast<size_t>(std::find(buckets.begin(), buckets.end(), bucket) - buckets.begin());
    // Each bucket has its own height, so that dots with equal values do not cover each other.
    const double share = (static_cast<double>(place) + 0.5) / static_cast<double>(buckets.size());
    svg.Circle(axis.At(mean), middle + (share - 0.5) * kDamageSpread, 4,
               KindClass(place + 3) + " ring", Cat(line.name, ", ", bucket, ": ", Fixed(mean, 4)));
    end = std::max(end, axis.At(mean) + 4);
  }
  svg.Text(end + 8, middle + 4, Brief(kld.mean), "strong");
}

std::vector<std::string> BucketsOf(const std::vector<DamageLine>& lines) {
  std::vector<std::string> buckets;
  for (const DamageLine& line : lines) {
    for (const auto& [bucket, mean] : line.buckets) {
      if (std::find(buckets.begin(), buckets.end(), bucket) == buckets.end())
        buckets.push_back(bucket);
    }
  }
  return buckets;
}

std::string DamagePicture(const std::vector<DamageLine>& lines,
                          const std::vector<std::string>& buckets) {
  double most = 0;
  for (const DamageLine& line : lines) {
    most = std::max(most, line.damage.kld.mean + line.damage.kld.error);
    for (const auto& [bucket, mean] : line.buckets) most = std::max(most, mean);
  }
  const Axis axis(most);
  const size_t drawn = std::min(lines.size(), kMostRows);
  const double height = kDamageTop + kDamageRow * static_cast<double>(drawn);
  Svg svg(kDamageWidth, height + kDamageAxis,
          "Mean KL divergence per token, on a logarithmic scale");
  DrawMarks(axis, height, svg);
  for (size_t i = 0; i < drawn; ++i)
    DrawLine(lines[i], kDamageTop + kDamageRow * static_cast<double>(i), axis, buckets, svg);
  return svg.Render();
}

HtmlTable DamageTable(size_t number, const std::vector<DamageLine>& lines,
                      const std::vector<std::string>& buckets) {
  std::vector<std::string> headings = {"run",         ">tokens", ">nats",
                                       ">extra nats", ">KLD",    ">same top-1"};
  for (const std::string& bucket : buckets) headings.push_back(">KLD, " + bucket);
  HtmlTable table(Cat("table-damage-", number), "Damage in nats per token, with standard errors",
                  headings);
  for (const DamageLine& line : lines) {
    const DamageFigures& damage = line.damage;
    std::vector<std::string> cells = {
        line.name,
        FormatCount(line.figures.tokens),
        FixedWithError(line.figures.nats.mean, line.figures.nats.error, 4),
        FixedWithError(damage.extra_nats.mean, damage.extra_nats.error, 4),
        FixedWithError(damage.kld.mean, damage.kld.error, 4),
        Cat(Percent(damage.top1.mean), " ± ", Percent(damage.top1.error))};
    for (const std::string& bucket : buckets) {
      const auto found = std::find_if(line.buckets.begin(), line.buckets.end(),
                                      [&](const auto& entry) { return entry.first == bucket; });
      cells.push_back(found == line.buckets.end() ? "-" : Fixed(found->second, 4));
    }
    table.Row(cells);
  }
  return table;
}

std::string NotHeldOut(const QualityRecord& record) {
  return record.made_from ? manifest::NotHeldOutText(record.made_from, record.sessions) : "";
}

// "" unless all sessions on one node cost less than each on its own, by more than both errors.
std::string OneNodeText(const QualityRecord& record, const DamageFigures& best) {
  std::optional<uint32_t> node;
  DamageFigures least = best;
  for (const auto& [group, row] : record.groups) {
    const auto& damage = record.best.all.split ? row.all.split : row.all.total;
    if (!damage || damage->kld.mean >= least.kld.mean) continue;
    if (best.kld.mean - damage->kld.mean <= best.kld.error + damage->kld.error) continue;
    least = *damage;
    node = group;
  }
  if (!node) return "";
  return Cat(" All sessions on node ", *node, " cost less, <b>",
             FixedWithError(least.kld.mean, least.kld.error, 4),
             " nats</b>: captured gate mass does not choose the best node here.");
}

std::string DamageFinding(const std::string& of, const QualityRecord& record) {
  const auto& damage = record.best.all.split ? record.best.all.split : record.best.all.total;
  if (!damage) return "";
  std::string out =
      Cat("With each session on its node ", record.best.all.split ? "the split" : "the node",
          " costs <b>", FixedWithError(damage->kld.mean, damage->kld.error, 4),
          " nats</b> of KL divergence per token (", runtime::Yardstick(damage->kld.mean), "), and ",
          Fixed(damage->extra_nats.mean, 4), " nats of the text");
  if (record.unmasked && record.unmasked->all.total) {
    out += Cat("; quantization alone costs ", Fixed(record.unmasked->all.total->kld.mean, 4));
  }
  const std::string held_out = NotHeldOut(record);
  return Cat(out, " (", of, ").", OneNodeText(record, *damage), held_out.empty() ? "" : " ",
             held_out);
}

std::string ChartOf(size_t number, const std::string& title, const QualityRecord& record) {
  const std::vector<DamageLine> lines = LinesOf(record);
  const std::vector<std::string> buckets = BucketsOf(lines);
  const std::string held_out = NotHeldOut(record);
  std::vector<LegendEntry> legend;
  for (size_t i = 0; i < buckets.size(); ++i)
    legend.push_back({KindClass(i + 3) + " round", buckets[i]});
  return Cat("<h3>", title, "</h3>\n",
             Figure((legend.empty() ? "" : Legend(legend)) + DamagePicture(lines, buckets),
                    Cat(held_out.empty() ? "" : Cat(held_out, " "),
                        "KL divergence of the next-token distributions from the whole model, in "
                        "nats per token, on ",
                        Plural(record.tokens, "token"), " of ", Plural(record.sessions, "session"),
                        "; dots are means, whiskers standard errors",
                        buckets.empty() ? "" : ", small dots the buckets",
                        ". Dashed marks are what llama.cpp's quantizations cost Llama-3-8B."),
                    DamageTable(number, lines, buckets)));
}

}  // namespace

std::optional<PageSection> DamageSection(const PageInputs& inputs) {
  PageSection section{"damage", "What the split costs", ""};
  size_t number = 0;
  if (inputs.distribution && inputs.distribution->quality) {
    section.body +=
        ChartOf(++number, "Recorded in the distribution", *inputs.distribution->quality);
    section.findings.push_back(
        DamageFinding("recorded in the distribution", *inputs.distribution->quality));
  }
  for (const PageEvaluation& evaluation : inputs.evaluations) {
    const auto& quality = evaluation.report.quality;
    if (!quality) continue;
    const bool recorded = inputs.distribution && inputs.distribution->quality == quality;
    if (recorded) continue;
    section.body += ChartOf(++number, Escaped(evaluation.name), *quality);
    section.findings.push_back(DamageFinding(Escaped(evaluation.name), *quality));
  }
  if (section.body.empty()) return std::nullopt;
  return section;
}

}  // namespace moepack::cli
