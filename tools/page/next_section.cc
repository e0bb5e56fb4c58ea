// What to run next: what the report lacks, and what its figures call for.
#include "libshard/base/text/text.h"
#include "manifest/document/whole_model.h"
#include "tools/base/command_text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"

namespace moepack::cli {
namespace {

// Above this a reader of the answers may notice (docs/runtime-shim.md, "Gates").
constexpr double kGoodKld = 0.05;

// Files that a reader has, and that no input names with its directory: capitals stand for them, as
// in the help.
constexpr const char* kSource = "SRC";
constexpr const char* kCalibration = "CALIBRATION";
constexpr const char* kHeldOut = "HELD_OUT";
struct Placeholder {
  const char *word, *meaning;
};
constexpr Placeholder kPlaceholders[] = {
    {kSource, "the model that the distribution is made from"},
    {kCalibration, "texts like those that the nodes are for"},
    {kHeldOut, "other texts of the same kinds"},
};

struct Step {
  std::string why;  // our own text
  const char* verb;
  std::string path;                                          // may begin with '-'
  std::vector<std::pair<std::string, std::string>> options;  // with a value, or "" for a flag
};

std::string LineOf(const Step& step) {
  CommandLine line(step.verb);
  line.AddPath(step.path);
  for (const auto& [option, value] : step.options) {
    if (value.empty()) {
      line.Add(option);
    } else {
      line.AddPath(option, value);
    }
  }
  return line.Text();
}

// The divergence of the last evaluation, or of what was recorded.
std::optional<double> LastKld(const PageInputs& inputs) {
  const manifest::QualityRecord* quality = inputs.distribution && inputs.distribution->quality
                                               ? &*inputs.distribution->quality
                                               : nullptr;
  for (const PageEvaluation& evaluation : inputs.evaluations) {
    if (evaluation.report.quality) quality = &*evaluation.report.quality;
  }
  if (quality == nullptr) return std::nullopt;
  const auto& damage = quality->best.all.split ? quality->best.all.split : quality->best.all.total;
  if (!damage) return std::nullopt;
  return damage->kld.mean;
}

// Otherwise `eval` compares with the model itself, and `profile` runs that.
bool HoldsWholeModel(const PageInputs& inputs) {
  return manifest::HoldsWholeModel(*inputs.distribution);
}

bool IsCalibrated(const PageInputs& inputs) {
  return inputs.distribution &&
         (inputs.distribution->calibrated || inputs.distribution->model.calibrated);
}

Step Evaluation(const PageInputs& inputs, const std::string& why,
                std::pair<std::string, std::string> option) {
  Step step{why, "eval", inputs.distribution_path, {}};
  if (!HoldsWholeModel(inputs)) step.options.emplace_back("--against", kSource);
  step.options.emplace_back("--text", kHeldOut);
  step.options.push_back(std::move(option));
  return step;
}

// The statistics of this report, or those that AddMeasuring suggests to make.
void AddStatistics(const PageInputs& inputs, Step& step) {
  if (inputs.score_paths.empty()) step.options.emplace_back("--statistics", "statistics.json");
  for (const std::string& path : inputs.score_paths)
    step.options.emplace_back("--statistics", path);
}

void AddMeasuring(const PageInputs& inputs, std::vector<Step>& steps) {
  if (!inputs.scores)
    steps.push_back({"Measure what the routers use on your own texts, for the heat maps:",
                     "profile",
                     HoldsWholeModel(inputs) ? inputs.distribution_path : kSource,
                     {{"--text", kCalibration}, {"-o", "statistics.json"}}});
  if (inputs.evaluations.empty() && !inputs.distribution->quality)
    steps.push_back(Evaluation(inputs,
                               Cat("Measure what the split costs, on texts that the plan was not "
                                   "made from",
                                   IsCalibrated(inputs) ? ", nor the weights calibrated on:" : ":"),
                               {"--json", ""}));
  if (!inputs.distribution->quality)
    steps.push_back(Evaluation(
        inputs, "Write the figures into the distribution and its README:", {"--record", ""}));
}

void AddMending(const PageInputs& inputs, std::vector<Step>& steps) {
  const std::optional<double> kld = LastKld(inputs);
  if (!kld || *kld <= kGoodKld) return;
  const std::string high = Cat("A divergence of ", Fixed(*kld, 3), " is high. ");
  if (!inputs.plan->expectation) {
    Step step{high + "A plan made from statistics of your texts puts together what they use:",
              "plan",
              kSource,
              {{"--groups", Cat(inputs.plan->groups.size())}}};
    AddStatistics(inputs, step);
    step.options.emplace_back("-o", "plan.json");
    steps.push_back(std::move(step));
  }
  if (!inputs.refits.empty()) return;
  Step step{high +
                "Refit changes the experts of each node on calibration text, so that it answers "
                "more like the whole model at the same size:",
            "refit",
            inputs.plan_path.empty() ? inputs.distribution_path : kSource,
            {}};
  if (inputs.plan_path.empty()) {
    step.options.emplace_back("--against", kSource);
  } else {
    step.options.emplace_back("--plan", inputs.plan_path);
  }
  step.options.emplace_back("--text", kCalibration);
  step.options.emplace_back("-o", "refitted");
  steps.push_back(std::move(step));
}

std::vector<Step> StepsOf(const PageInputs& inputs) {
  std::vector<Step> steps;
  if (!inputs.distribution) {
    if (!inputs.plan_path.empty()) {
      steps.push_back({"Write the distribution of this plan:",
                       "build",
                       kSource,
                       {{"--plan", inputs.plan_path}, {"-o", "out"}}});
    } else if (inputs.scores) {
      Step step{"Decide which node holds which experts, from these statistics:",
                "plan",
                kSource,
                {{"--groups", "2"}}};
      AddStatistics(inputs, step);
      step.options.emplace_back("-o", "plan.json");
      steps.push_back(std::move(step));
    }
    return steps;
  }
  const std::string& dist = inputs.distribution_path;
  AddMeasuring(inputs, steps);
  AddMending(inputs, steps);
  if (const std::optional<double> kld = LastKld(inputs))
    steps.push_back(Evaluation(
        inputs, "Keep it this good in CI; the command fails when nodes answer worse than this:",
        {"--gate", Cat("kld<=", Fixed(*kld * 1.1, 3))}));
  steps.push_back({"Prove that every byte is what distribution.json says:", "verify", dist, {}});
  steps.push_back({"Make a node:", "assemble", dist, {{"--group", "0"}, {"-o", "node-0"}}});
  return steps;
}

// Explains the placeholders of these commands; "" if there are none.
std::string PlaceholderText(const std::string& lines, bool calibrated) {
  std::vector<std::string> used;
  for (const Placeholder& placeholder : kPlaceholders) {
    if (lines.find(Cat(" ", placeholder.word)) == lines.npos) continue;
    const bool other = calibrated && std::string_view(placeholder.word) == kHeldOut;
    used.push_back(Cat("<code>", placeholder.word, "</code> ", placeholder.meaning,
                       other ? ", and not those that the weights were calibrated on" : ""));
  }
  if (used.empty()) return "";
  return Paragraph(
      Cat("Words in capitals stand for your own files: ", moepack::Join(used, ", "), "."));
}

}  // namespace

std::optional<PageSection> NextSection(const PageInputs& inputs) {
  PageSection section{"next", "What to run next", ""};
  std::string lines;
  for (const Step& step : StepsOf(inputs)) {
    const std::string line = LineOf(step);
    section.body += Paragraph(Escaped(step.why)) + CommandBlock(line);
    lines += line + "\n";
  }
  if (section.body.empty()) return std::nullopt;
  section.body = PlaceholderText(lines, IsCalibrated(inputs)) + section.body;
  return section;
}

}  // namespace moepack::cli
