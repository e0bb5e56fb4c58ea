// What a calibration made of the same types: the error of each layer's products, and the divergence
// of calibrated files beside plain ones.
#include <algorithm>
#include <iterator>
#include <optional>

#include "libshard/base/text/text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"

namespace moepack::cli {
namespace {

// ---- The record of a calibration

// A layer of the model or, if its experts were refitted, of a group.
struct NamedOutcome {
  std::string name;
  const CalibratedOutcome& outcome;
};

std::vector<NamedOutcome> OutcomesOf(const CalibratedRecord& record) {
  std::vector<NamedOutcome> all;
  for (const CalibratedOutcome& outcome : record.layers) {
    const bool output = outcome.layer == record.layer_count;
    all.push_back({output ? "output" : Cat("layer ", outcome.layer), outcome});
  }
  const size_t groups = record.groups ? record.groups->layers.size() : 0;
  for (size_t group = 0; group < groups; ++group) {
    for (const CalibratedOutcome& outcome : record.groups->layers[group]) {
      if (outcome.matrices > 0)
        all.push_back({Cat("group ", group, ", layer ", outcome.layer), outcome});
    }
  }
  return all;
}

// What encoding adds to the error, as a share of what it adds without feedback; no value where that
// is nothing. Negative where feedback makes up for more of what earlier layers got wrong than
// rounding costs.
std::optional<double> ErrorLeft(const CalibratedOutcome& outcome) {
  if (!(outcome.error_plain > 0)) return std::nullopt;
  return outcome.error / outcome.error_plain;
}

constexpr const char* kBelowZero = "below 0";

std::string PercentText(double share) {
  return share < 0 ? kBelowZero : Fixed(100 * share, 0) + " %";
}

std::string ShareText(double share) { return share < 0 ? kBelowZero : Percent(share); }

std::string ShareTip(double share) {
  if (share < 0) return "below 0, less than with the weights before quantization";
  return Cat(Percent(share), " of what encoding without feedback adds");
}

std::string ErrorsPicture(const CalibratedRecord& record) {
  PageBars picture{"Error that encoding adds in each layer", "error added", {}, PercentText};
  for (const auto& [name, outcome] : OutcomesOf(record)) {
    const std::optional<double> left = ErrorLeft(outcome);
    if (left) picture.bars.push_back({name, *left, 0, "k2", ShareTip(*left)});
  }
  return BarsPicture(picture);
}

HtmlTable ErrorsTable(const CalibratedRecord& record, size_t number) {
  HtmlTable table(Cat("table-calibration-", number), "Matrices of each layer",
                  {"layer", ">matrices", ">with feedback", ">too few tokens",
                   ">no better on held-out text", ">not multiplied", ">error added"});
  for (const auto& [name, outcome] : OutcomesOf(record)) {
    const std::optional<double> left = ErrorLeft(outcome);
    table.Row({name, FormatCount(outcome.matrices), FormatCount(outcome.accepted),
               FormatCount(outcome.few_tokens), FormatCount(outcome.worse),
               FormatCount(outcome.unseen), left ? ShareText(*left) : "-"});
  }
  return table;
}

std::string TextsOf(const CalibratedRecord& record) {
  std::string out;
  for (const CalibrationText& text : record.calibration) {
    const uint64_t taken = text.taken ? text.taken->tokens : text.tokens;
    out += Cat(out.empty() ? "" : ", ", "<code>", Escaped(text.name), "</code> ",
               text.bucket.empty() ? "" : Cat("(", Escaped(text.bucket), ") "),
               Plural(taken, "token"));
  }
  return out;
}

std::string OfCalibration(const CalibratedRecord& record, size_t number) {
  std::string method = "Texts: " + TextsOf(record);
  for (const auto& [name, value] : record.parameters)
    method += Cat("; ", Escaped(name), " ", Escaped(value));
  return Paragraph(method + ".") +
         Figure(ErrorsPicture(record),
                "What encoding adds to the squared error of the layer's products, on text that was "
                "held out from the calibration, as a share of what it adds without feedback. Below "
                "0 the products are closer to the model's than with the weights before "
                "quantization: feedback also makes up for what earlier layers got wrong.",
                ErrorsTable(record, number));
}

std::string RecordFinding(const CalibratedRecord& record) {
  const CalibratedFigures sum = record.sum();
  return Cat("Calibrated on <b>", Plural(record.tokens(), "token"),
             "</b>: ", FormatCount(sum.accepted), " of ", FormatCount(sum.matrices),
             " matrices are encoded with feedback, in files of the same types and size.");
}

// ---- Evaluations of calibrated files and of plain ones

// Whether both ran the same tokens with the same model before quantization.
bool SameMeasure(const EvalReport& a, const EvalReport& b) {
  if (!a.summary.reference || !b.summary.reference) return false;
  const runtime::Likelihood &one = a.summary.reference->likelihood,
                            &other = b.summary.reference->likelihood;
  return a.context == b.context && a.score_half == b.score_half && one.tokens == other.tokens &&
         one.log_probability == other.log_probability;
}

// Those that measured quantization: the calibrated ones, and what is comparable with one of them.
std::vector<const PageEvaluation*> Comparable(const PageInputs& inputs) {
  std::vector<const PageEvaluation*> all, found;
  for (const PageEvaluation& evaluation : inputs.evaluations) {
    if (evaluation.report.summary.quantization) all.push_back(&evaluation);
  }
  std::copy_if(all.begin(), all.end(), std::back_inserter(found), [&](const PageEvaluation* one) {
    return one->report.calibrated ||
           std::any_of(all.begin(), all.end(), [&](const PageEvaluation* other) {
             return other->report.calibrated && SameMeasure(one->report, other->report);
           });
  });
  return found;
}

std::string DivergencePicture(const std::vector<const PageEvaluation*>& evaluations) {
  PageBars picture{"Mean KL divergence per token of quantized files", "nats per token", {}, Brief};
  for (const PageEvaluation* one : evaluations) {
    const runtime::Damage& damage = *one->report.summary.quantization;
    picture.bars.push_back({one->name, damage.mean, damage.error,
                            one->report.calibrated ? "k2" : "k1",
                            Cat(FixedWithError(damage.mean, damage.error, 4), " nats per token")});
  }
  return BarsPicture(picture);
}

HtmlTable DivergenceTable(const std::vector<const PageEvaluation*>& evaluations) {
  HtmlTable table("table-calibration-divergence", "Quantization, in nats per token",
                  {"evaluation", "weights", ">calibrated on", ">tokens", ">KLD", ">same top-1",
                   ">perplexity ratio"});
  for (const PageEvaluation* one : evaluations) {
    const EvalReport& report = one->report;
    const runtime::Damage& damage = *report.summary.quantization;
    table.Row({one->name, report.precision,
               report.calibrated ? Plural(report.calibrated->tokens, "token") : "-",
               FormatCount(report.summary.full ? report.summary.full->likelihood.tokens : 0),
               FixedWithError(damage.mean, damage.error, 4), Percent(damage.top1),
               FixedWithError(damage.perplexity_ratio, damage.perplexity_ratio_error, 4)});
  }
  return table;
}

// Beside a plain file of the same types; "" without one.
std::string DivergenceFinding(const PageEvaluation& calibrated,
                              const std::vector<const PageEvaluation*>& evaluations) {
  for (const PageEvaluation* other : evaluations) {
    const EvalReport &own = calibrated.report, &plain = other->report;
    if (plain.calibrated || plain.precision != own.precision || !SameMeasure(own, plain)) continue;
    const double before = plain.summary.quantization->mean, after = own.summary.quantization->mean;
    return Cat("Quantization of the same types costs <b>", Brief(after),
               " nats</b> of KL divergence per token with the calibration and ", Brief(before),
               " without (", Escaped(calibrated.name), ", ", Escaped(other->name), ").");
  }
  return "";
}

void AddEvaluations(const PageInputs& inputs, PageSection& section) {
  const std::vector<const PageEvaluation*> evaluations = Comparable(inputs);
  if (evaluations.empty()) return;
  std::vector<LegendEntry> legend = {{"k2", "calibrated"}};
  const auto is_plain = [](const PageEvaluation* one) { return !one->report.calibrated; };
  if (std::any_of(evaluations.begin(), evaluations.end(), is_plain))
    legend.push_back({"k1", "plain"});
  section.body += Figure(Legend(legend) + DivergencePicture(evaluations),
                         "KL divergence of the next-token distributions from the model before "
                         "quantization; whiskers are standard errors.",
                         DivergenceTable(evaluations));
  for (const PageEvaluation* one : evaluations) {
    if (one->report.calibrated) section.findings.push_back(DivergenceFinding(*one, evaluations));
  }
}

}  // namespace

std::optional<PageSection> CalibrationSection(const PageInputs& inputs) {
  PageSection section{"calibration", "What calibration improved", ""};
  size_t number = 0;
  for (const CalibratedRecord& record : inputs.calibrations) {
    if (record.layers.empty()) continue;
    section.body += OfCalibration(record, ++number);
    section.findings.push_back(RecordFinding(record));
  }
  AddEvaluations(inputs, section);
  if (section.body.empty()) return std::nullopt;
  return section;
}

}  // namespace moepack::cli
