// Ways to choose the group of a session, other than by lowest divergence.
#include <functional>
#include <numeric>

#include "runtime-shim/eval/summary.h"

namespace moepack::runtime {
namespace {

using Choice = std::function<std::optional<uint32_t>(const SessionChoice& session)>;

double RegretOf(const SessionChoice& session, uint32_t group) {
  // The best group of the session is the measure, so that hard texts do not count as bad choices.
  return session.divergences[group] - session.divergences[session.by_kld];
}

RuleFigures FiguresOf(const char* rule, std::span<const SessionChoice> sessions,
                      const Choice& choose) {
  RuleFigures figures;
  figures.rule = rule;
  uint64_t right = 0;
  for (const SessionChoice& session : sessions) {
    const std::optional<uint32_t> group = choose(session);
    if (!group) continue;
    ++figures.sessions;
    right += *group == session.by_kld;
    figures.regret += RegretOf(session, *group);
  }
  if (figures.sessions == 0) return figures;
  figures.accuracy = static_cast<double>(right) / static_cast<double>(figures.sessions);
  figures.regret /= static_cast<double>(figures.sessions);
  return figures;
}

void CountSure(std::span<const SessionChoice> sessions, RuleFigures& figures) {
  figures.sure = figures.sure_right = 0;
  for (const SessionChoice& session : sessions) {
    if (!session.by_table || !session.placed->sure) continue;
    ++*figures.sure;
    *figures.sure_right += *session.by_table == session.by_kld;
  }
}

// The mean over all groups.
RuleFigures AnyGroup(std::span<const SessionChoice> sessions) {
  RuleFigures figures;
  figures.rule = "any group";
  figures.sessions = sessions.size();
  for (const SessionChoice& session : sessions) {
    const auto groups = static_cast<double>(session.divergences.size());
    double regret = 0;
    for (uint32_t group = 0; group < session.divergences.size(); ++group)
      regret += RegretOf(session, group);
    figures.accuracy += 1 / groups / static_cast<double>(sessions.size());
    figures.regret += regret / groups / static_cast<double>(sessions.size());
  }
  return figures;
}

}  // namespace

std::vector<RuleFigures> SummarizeRules(std::span<const SessionChoice> sessions) {
  std::vector<RuleFigures> rules;
  rules.push_back(
      FiguresOf("table", sessions, [](const SessionChoice& session) { return session.by_table; }));
  CountSure(sessions, rules.back());
  rules.push_back(FiguresOf("race", sessions, [](const SessionChoice& session) {
    return std::optional(session.race.winner);
  }));
  rules.push_back(FiguresOf("capture", sessions, [](const SessionChoice& session) {
    return std::optional(session.by_capture);
  }));
  rules.push_back(AnyGroup(sessions));
  return rules;
}

}  // namespace moepack::runtime
