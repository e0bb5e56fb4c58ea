// What to run next: what the report lacks, and what its figures ask for.
#include "libshard/base/text/text.h"
#include "tools/base/command_text.h"
#include "tools/page/html.h"
#include "tools/page/section.h"

namespace moepack::cli {
namespace {

// Above this a reader of the answers may notice (docs/evaluation.md, "Gates").
constexpr double kGoodKld = 0.05;

struct Step {
  std::string why;                 // ours
  std::vector<std::string> words;  // behind "moepack"
};

// Words that begin with '-' and what follows are options; others are paths.
CommandLine CommandOf(const std::vector<std::string>& words) {
  CommandLine line(words.front());  // the verb
  for (size_t i = 1; i < words.size(); ++i) {
    if (!words[i].starts_with('-')) {
      line.AddPath(words[i]);
      continue;
    }
    line.Add(words[i]);
    if (i + 1 < words.size()) line.Add(words[++i]);
  }
  return line;
}

bool Measured(const PageInputs& inputs) {
  if (inputs.distribution && inputs.distribution->quality) return true;
  for (const PageEvaluation& evaluation : inputs.evaluations) {
    if (evaluation.report.quality) return true;
  }
  return false;
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

void AddMeasuring(const PageInputs& inputs, const std::string& dist, std::vector<Step>& steps) {
  if (!inputs.scores)
    steps.push_back({"Measure what the routers use on your own texts, for the heat maps:",
                     {"profile", dist, "--text", "calibration.jsonl", "-o", "statistics.json"}});
  if (inputs.evaluations.empty())
    steps.push_back({"Measure what the split costs, on texts that the plan was not made from:",
                     {"eval", dist, "--text", "held-out.jsonl", "--json"}});
  if (!inputs.distribution->quality)
    steps.push_back({"Write the figures into the distribution and its README:",
                     {"eval", dist, "--text", "held-out.jsonl", "--record"}});
}

void AddMending(const PageInputs& inputs, std::vector<Step>& steps) {
  const std::optional<double> kld = LastKld(inputs);
  const bool refitted = !inputs.refits.empty();
  if (!kld || *kld <= kGoodKld || refitted || inputs.plan->expectation) return;
  steps.push_back(
      {Cat("A divergence of ", Fixed(*kld, 3),
           " is much. A plan made from statistics of your texts puts together what they use:"),
       {"plan", "SRC", "--groups", Cat(inputs.plan->groups.size()), "--statistics",
        "statistics.json", "-o", "plan.json"}});
}

std::vector<Step> StepsOf(const PageInputs& inputs) {
  std::vector<Step> steps;
  if (!inputs.distribution) {
    if (!inputs.plan_path.empty())
      steps.push_back({"Write the distribution of this plan:",
                       {"build", "SRC", "--plan", inputs.plan_path, "-o", "out"}});
    else if (inputs.scores)
      steps.push_back({"Decide which node holds which experts, from these statistics:",
                       {"plan", "SRC", "--groups", "2", "--statistics", inputs.score_paths.front(),
                        "-o", "plan.json"}});
    return steps;
  }
  const std::string& dist = inputs.distribution_path;
  AddMeasuring(inputs, dist, steps);
  AddMending(inputs, steps);
  if (Measured(inputs))
    steps.push_back(
        {"Keep it this good in CI: the command fails when a session's node answers "
         "worse than this:",
         {"eval", dist, "--text", "held-out.jsonl", "--gate",
          Cat("kld<=", Fixed(LastKld(inputs).value_or(kGoodKld) * 1.1, 3))}});
  steps.push_back({"Prove that every byte is what distribution.json says:", {"verify", dist}});
  steps.push_back({"Make a node:", {"assemble", dist, "--group", "0", "-o", "node-0"}});
  return steps;
}

}  // namespace

std::optional<PageSection> NextSection(const PageInputs& inputs) {
  PageSection section{"next", "What to run next", ""};
  for (const Step& step : StepsOf(inputs))
    section.body += Paragraph(Escaped(step.why)) + CommandBlock(CommandOf(step.words).Text());
  if (section.body.empty()) return std::nullopt;
  return section;
}

}  // namespace moepack::cli
