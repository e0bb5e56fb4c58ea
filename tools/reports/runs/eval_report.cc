#include "tools/reports/runs/eval_report.h"

#include <algorithm>
#include <cstdio>

#include "libshard/base/text/quote.h"
#include "libshard/base/text/text.h"
#include "manifest/document/made_from.h"
#include "manifest/document/manifest.h"
#include "runtime-shim/eval/yardstick.h"
#include "tools/base/output.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

using runtime::Damage;
using runtime::EvalRow;
using runtime::EvalSummary;

constexpr size_t kMaxSessionsInText = 50;

std::string Digits(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

std::string WithError(double value, double error, int digits) {
  return Digits(value, digits) + " ± " + Digits(error, digits);
}

std::string Share(double share) { return Digits(100 * share, 1) + " %"; }

std::string LoopText(const std::optional<runtime::LoopRate>& loops) {
  return loops ? Cat(loops->looping, "/", loops->sessions) : "-";
}

std::string RepeatText(const std::optional<runtime::LoopRate>& loops) {
  return loops ? Share(loops->repeated_share) : "-";
}

void LikelihoodRow(const std::string& label, const runtime::Likelihood& likelihood,
                   const std::optional<runtime::LoopRate>& loops, Table& table) {
  table.Row({label, FormatCount(likelihood.tokens), Digits(likelihood.log_probability, 4),
             WithError(likelihood.perplexity, likelihood.perplexity_error, 3), LoopText(loops),
             RepeatText(loops)});
}

struct LabelledRow {
  std::string label;
  const EvalRow* row;
  std::vector<std::string> ways = {};  // to choose the groups of its sessions, if it has several
};

// A way to choose the group of each session.
struct ChoiceOfGroup {
  const char *name, *subject;
  std::optional<EvalRow> EvalSummary::*row;
  uint32_t (*choose)(const runtime::SessionChoice& session);
};
constexpr ChoiceOfGroup kChoices[] = {
    {"capture", "capture", &EvalSummary::best_by_capture,
     [](const runtime::SessionChoice& session) { return session.by_capture; }},
    {"KLD", "KLD", &EvalSummary::best_by_kld,
     [](const runtime::SessionChoice& session) { return session.by_kld; }},
    {"race", "the race", &EvalSummary::raced,
     [](const runtime::SessionChoice& session) { return session.race.winner; }},
};

// "capture, KLD and race".
std::string Enumerated(const std::vector<std::string>& names) {
  if (names.size() < 2) return names.empty() ? "" : names.front();
  const std::vector<std::string> first(names.begin(), names.end() - 1);
  return Cat(moepack::Join(first, ", "), " and ", names.back());
}

// The rows with a group chosen for each session. Ways that choose the same group for every session
// have the same figures, and share a row.
std::vector<LabelledRow> BestRows(const EvalSummary& summary) {
  std::vector<std::vector<const ChoiceOfGroup*>> alike;
  for (const ChoiceOfGroup& choice : kChoices) {
    if (!(summary.*choice.row)) continue;
    const auto same = std::find_if(alike.begin(), alike.end(), [&](const auto& others) {
      return std::all_of(summary.sessions.begin(), summary.sessions.end(),
                         [&](const runtime::SessionChoice& session) {
                           return choice.choose(session) == others.front()->choose(session);
                         });
    });
    if (same == alike.end()) {
      alike.push_back({&choice});
    } else {
      same->push_back(&choice);
    }
  }
  std::vector<LabelledRow> rows;
  for (const auto& choices : alike) {
    const EvalRow& row = *(summary.*choices.front()->row);
    LabelledRow best{row.label, &row};
    std::vector<std::string> names;
    for (const ChoiceOfGroup* choice : choices) {
      names.emplace_back(choice->name);
      best.ways.emplace_back(choice->subject);
    }
    if (choices.size() > 1) best.label = Cat("best by ", Enumerated(names));
    rows.push_back(std::move(best));
  }
  return rows;
}

std::vector<LabelledRow> Rows(const EvalSummary& summary) {
  std::vector<LabelledRow> rows;
  for (const EvalRow& row : summary.groups) rows.push_back({row.label, &row});
  for (LabelledRow& row : BestRows(summary)) rows.push_back(std::move(row));
  return rows;
}

std::string LikelihoodTable(const EvalSummary& summary) {
  Table table({"run", ">tokens", ">log-prob", ">perplexity", ">loops", ">repeated"});
  if (summary.reference) {
    LikelihoodRow("reference", summary.reference->likelihood, summary.reference->loops, table);
  }
  if (summary.full) {
    LikelihoodRow("unmasked", summary.full->likelihood, summary.full->loops, table);
  }
  for (const auto& [label, row, ways] : Rows(summary))
    LikelihoodRow(label, row->likelihood, row->loops, table);
  return table.Render();
}

Table DamageHeadings() {
  return Table({"run", ">mean KLD", ">median", ">P90", ">P99", ">P99.9", ">same top-1",
                ">perplexity ratio"});
}

void DamageRow(const std::string& label, const Damage& damage, Table& table) {
  table.Row({label, WithError(damage.mean, damage.error, 4), Digits(damage.median, 4),
             Digits(damage.p90, 3), Digits(damage.p99, 3), Digits(damage.p999, 3),
             Share(damage.top1),
             WithError(damage.perplexity_ratio, damage.perplexity_ratio_error, 3)});
}

std::string DamageTable(const EvalSummary& summary, std::optional<Damage> EvalRow::*member) {
  Table table = DamageHeadings();
  for (const auto& [label, row, ways] : Rows(summary)) {
    if (row->*member) DamageRow(label, *(row->*member), table);
  }
  return table.empty() ? "" : table.Render();
}

std::string DamageText(const EvalReport& report) {
  const EvalSummary& summary = report.summary;
  std::string text;
  if (summary.quantization) {
    Table table = DamageHeadings();
    DamageRow("unmasked", *summary.quantization, table);
    text += "Quantization (unmasked against reference):\n" + table.Render() + "\n";
  }
  const std::string split = DamageTable(summary, &EvalRow::split);
  if (!split.empty()) text += "The split (masked against unmasked):\n" + split + "\n";
  const std::string total = DamageTable(summary, &EvalRow::total);
  if (!total.empty()) text += "Split and quantization (masked against reference):\n" + total + "\n";
  if (report.against.empty())
    text += "Damage by quantization was not measured: name the source with --against.\n\n";
  if (!summary.full) text += "The split alone was not measured: some experts are on no node.\n\n";
  return text;
}

std::string CaptureTable(const EvalSummary& summary) {
  Table table({"captured gate mass", ">mean", ">on-policy", ">assigned", ">others", ">sessions"});
  for (size_t i = 0; i < summary.groups.size(); ++i) {
    const EvalRow& row = summary.groups[i];
    const runtime::Assignment& assignment = summary.assignments[i];
    const bool all = assignment.sessions == row.sessions;
    table.Row({row.label, Share(row.capture), Share(row.on_policy_capture),
               assignment.sessions > 0 ? Share(assignment.assigned) : "-",
               all ? "-" : Share(assignment.others), std::to_string(assignment.sessions)});
  }
  const EvalRow& best = *summary.best_by_capture;
  table.Row({best.label, Share(best.capture), Share(best.on_policy_capture), Share(best.capture),
             "-", std::to_string(best.sessions)});
  return table.Render();
}

std::string CaptureLayers(const EvalSummary& summary) {
  Table table({"run", ">layer", ">mean", ">P5", ">P25", ">on-policy"});
  for (const auto& [label, row, ways] : Rows(summary)) {
    for (size_t i = 0; i < summary.layers.size(); ++i) {
      table.Row({label, std::to_string(summary.layers[i]), Share(row->teacher[i].mean),
                 Share(row->teacher[i].p5), Share(row->teacher[i].p25),
                 Share(row->on_policy[i].mean)});
    }
  }
  return table.Render();
}

std::string SessionTable(const EvalSummary& summary) {
  Table table({"session", "bucket", ">tokens", ">captures most", ">share", ">lowest KLD", ">KLD",
               ">race", ">margin"});
  const size_t shown = std::min(summary.sessions.size(), kMaxSessionsInText);
  for (size_t i = 0; i < shown; ++i) {
    const runtime::SessionChoice& session = summary.sessions[i];
    table.Row({session.name, session.bucket.empty() ? "-" : session.bucket,
               FormatCount(session.tokens), summary.groups[session.by_capture].label,
               Share(session.captures[session.by_capture]), summary.groups[session.by_kld].label,
               Digits(session.divergences[session.by_kld], 4),
               summary.groups[session.race.winner].label, Digits(session.race.margin, 3)});
  }
  std::string text = table.Render();
  if (shown < summary.sessions.size())
    text += Cat("and ", summary.sessions.size() - shown, " more: --json lists all\n");
  const std::string sessions = Plural(summary.sessions.size(), "session");
  return text + Cat("Race and capture choose the same group for ", summary.agreements, " of ",
                    sessions, ", KLD and capture for ", summary.kld_agreements, " of ", sessions,
                    ".\n");
}

// Without a placement table there is nothing to compare.
std::string RulesText(const EvalSummary& summary) {
  if (summary.rules.empty()) return "";
  Table table({"choice of the group", ">sessions", ">as lowest KLD", ">regret", ">sure", ">right"});
  for (const runtime::RuleFigures& rule : summary.rules) {
    table.Row({rule.rule, FormatCount(rule.sessions), Share(rule.accuracy), Digits(rule.regret, 4),
               rule.sure ? FormatCount(*rule.sure) : "-",
               rule.sure ? FormatCount(*rule.sure_right) : "-"});
  }
  return table.Render() +
         "Regret: nats per token by which the chosen group diverges more than the best one.\n\n";
}

// Over all sessions. The group that captures the most need not lose the least, so both are named.
std::string BestGroupsText(const EvalSummary& summary) {
  const EvalRow& most = summary.groups[summary.most_capture];
  const EvalRow& least = summary.groups[summary.least_kld];
  const Damage& damage = least.split ? *least.split : *least.total;
  const bool same = summary.most_capture == summary.least_kld;
  return Cat("Over all texts ", most.label, " captures most (", Share(most.capture), ")",
             same ? " and" : Cat(", but ", least.label).c_str(), " has the lowest mean KLD (",
             Digits(damage.mean, 4), ").\n");
}

// "The split costs about a Q3_K_M"; "The split is worse than an IQ1_M".
std::string CostText(const char* what, double divergence) {
  const std::string yardstick = runtime::Yardstick(divergence);
  return Cat(what, yardstick.starts_with(runtime::kWorseThan) ? " is " : " costs ", yardstick);
}

// What the split and the types of a distribution cost as one.
std::string TogetherText(double divergence) {
  const std::string yardstick = runtime::Yardstick(divergence);
  const char* amount = "about as much as";
  if (yardstick.starts_with("less")) amount = "less than";
  if (yardstick.starts_with(runtime::kWorseThan)) amount = "more than";
  return Cat("Split and quantization together cost ", amount, " quantizing to ",
             yardstick.substr(yardstick.rfind(' ') + 1));
}

std::string YardstickText(const EvalSummary& summary) {
  std::string text;
  if (summary.quantization)
    text += Cat(CostText("Quantization", summary.quantization->mean), ".\n");
  for (const auto& [label, row, ways] : BestRows(summary)) {
    if (row->split)
      text += Cat(CostText("The split", row->split->mean), " where ", Enumerated(ways),
                  ways.size() > 1 ? " choose" : " chooses", " the group.\n");
  }
  return text.empty() ? "" : text + "(Types of llama.cpp, by what they cost Llama-3-8B.)\n";
}

// One sentence: what the split, or else the quantization, costs, and whether the gates hold.
std::string VerdictText(const EvalReport& report) {
  const EvalSummary& summary = report.summary;
  std::string text;
  if (const std::optional<EvalRow>& best = summary.best_by_capture; best && best->split) {
    text = Cat(CostText("The split", best->split->mean), " (mean KLD ",
               Digits(best->split->mean, 4), ") and keeps ", Share(best->capture),
               " of the gate mass where capture chooses the group");
  } else if (best && best->total) {
    text = Cat(TogetherText(best->total->mean), " (mean KLD ", Digits(best->total->mean, 4),
               ") where capture chooses the group");
  } else if (summary.quantization) {
    text = Cat(CostText("Quantization", summary.quantization->mean), " (mean KLD ",
               Digits(summary.quantization->mean, 4), ")");
  } else {
    const runtime::EvalBase& model = summary.full ? *summary.full : *summary.reference;
    text = Cat("The model has a perplexity of ", Digits(model.likelihood.perplexity, 3),
               ", and there is nothing to compare it with");
  }
  if (report.gates.empty()) return text + ".\n";
  const auto failed =
      std::count_if(report.gates.begin(), report.gates.end(),
                    [](const EvalReport::GateOutcome& gate) { return !gate.failed.empty(); });
  if (failed == 0) return text + "; every gate holds.\n";
  return Cat(text, "; ", failed, " of ", Plural(report.gates.size(), "gate"), " failed.\n");
}

std::string CalibratedText(const EvalReport& report) {
  if (!report.calibrated) return "";
  return Cat("The weights were calibrated on ", Plural(report.calibrated->tokens, "token"), " (",
             Shown(report.calibrated->method), ").\n");
}

std::string NotHeldOut(const EvalReport& report) {
  if (!report.quality) return "";
  return manifest::NotHeldOutText(report.quality->made_from, report.quality->sessions);
}

}  // namespace

CiReport EvalCi(const EvalReport& report) {
  using manifest::Severity;
  constexpr const char* kMeasured = "measured";
  CiReport ci{"eval", report.source, report.source, {}, ""};
  if (report.distribution) ci.file = Cat(report.source, "/", manifest::kManifestFile);
  const auto note = [&](std::string text) {
    while (text.ends_with('\n')) text.pop_back();
    ci.cases.findings.push_back({Severity::kNote, kMeasured, "", "", std::move(text)});
  };
  ci.cases.rules.push_back(kMeasured);
  if (!report.summary.groups.empty()) note(BestGroupsText(report.summary));
  for (const std::string& line : moepack::Split(YardstickText(report.summary), '\n')) {
    if (!line.empty()) note(line);
  }
  if (const std::string text = NotHeldOut(report); !text.empty()) note(text);
  for (const EvalReport::GateOutcome& outcome : report.gates) {
    ci.cases.rules.push_back(outcome.gate);
    for (const std::string& failure : outcome.failed)
      ci.cases.findings.push_back({Severity::kError, outcome.gate, "", "", failure});
  }
  const auto failed = static_cast<uint64_t>(
      std::count_if(report.gates.begin(), report.gates.end(),
                    [](const EvalReport::GateOutcome& gate) { return !gate.failed.empty(); }));
  ci.totals = failed == 0 ? Cat("passed: ", Plural(report.gates.size(), "gate"))
                          : Cat("failed: ", failed, " of ", Plural(report.gates.size(), "gate"));
  return ci;
}

std::string EvalText(const EvalReport& report) {
  const EvalSummary& summary = report.summary;
  std::string text =
      Cat(VerdictText(report), "\n", LikelihoodTable(summary), "\n", DamageText(report));
  if (!summary.groups.empty()) {
    text += CaptureTable(summary) + "\n" + CaptureLayers(summary) + "\n" + SessionTable(summary) +
            "\n" + RulesText(summary) + BestGroupsText(summary);
  }
  text += YardstickText(summary) + CalibratedText(report);
  const std::string not_held_out = NotHeldOut(report);
  if (!not_held_out.empty()) text += not_held_out + "\n";
  for (const std::string& failure : report.failed) text += "gate failed: " + Shown(failure) + "\n";
  return text;
}

}  // namespace moepack::cli
