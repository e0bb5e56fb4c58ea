#include "tools/reports/planning/place_report.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "libshard/base/text/text.h"
#include "tools/base/output.h"
#include "tools/base/table.h"

namespace moepack::cli {
namespace {

std::string LeadText(const SessionPlace& place) {
  char text[64];
  if (place.rule == "probe") {
    std::snprintf(text, sizeof text, "%.1f %% of gates", 100 * place.margin);
  } else {
    std::snprintf(text, sizeof text, place.rule == "race" ? "%.3f nats/token" : "%.2f nats",
                  place.margin);
  }
  return text;
}

std::string KnownText(const std::optional<double>& share) {
  if (!share) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * *share);
  return text;
}

template <class T>
Json ValueOrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

}  // namespace

SessionPlace PlaceByTable(const std::string& session, const PlacementAnswer& answer) {
  SessionPlace place{session, "table", answer.best};
  place.second = answer.second;
  place.margin = answer.margin;
  place.sure = answer.sure;
  place.tokens = answer.tokens;
  place.known_share = answer.known_share;
  place.scores = answer.scores;
  return place;
}

SessionPlace PlaceByProbe(const std::string& session, const std::vector<double>& scores,
                          uint32_t tokens) {
  const auto best =
      static_cast<uint32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  SessionPlace place{session, "probe", best};
  for (uint32_t group = 0; group < scores.size(); ++group) {
    place.scores.emplace_back(scores[group]);
    if (group == best || (place.second && scores[*place.second] >= scores[group])) continue;
    place.second = group;
  }
  if (place.second) place.margin = scores[best] - scores[*place.second];
  place.tokens = tokens;
  return place;
}

SessionPlace PlaceByRace(const std::string& session, const std::vector<uint32_t>& groups,
                         const runtime::RaceResult& race) {
  SessionPlace place{session, "race", groups[race.winner]};
  place.margin = race.margin;
  place.tokens = race.tokens;
  return place;
}

std::string PlacementLine(const PlacementTable& table) {
  std::string text = Cat("placement: ", Plural(table.tokens.ids.size(), "token"));
  if (table.tokens.left_out > 0) text += Cat(", ", FormatCount(table.tokens.left_out), " left out");
  const PlacementTrial& trial = table.trial;
  if (trial.sessions == 0) return text + "; no group has two sessions to try it on";
  return text + Cat("; sends ", trial.right, " of ", Plural(trial.sessions, "session"),
                    " that it had not seen to their group, and is right about ", trial.sure_right,
                    " of the ", trial.sure, " it is sure of");
}

std::string PlaceText(const std::vector<SessionPlace>& places) {
  Table table({"session", ">group", ">second", ">lead", "sure", ">tokens", ">known", "by"});
  for (const SessionPlace& place : places) {
    table.Row({place.session, std::to_string(place.group),
               place.second ? std::to_string(*place.second) : "-", LeadText(place),
               !place.sure   ? "-"
               : *place.sure ? "yes"
                             : "no",
               FormatCount(place.tokens), KnownText(place.known_share), place.rule});
  }
  return table.Render();
}

std::string PlaceLine(const std::vector<SessionPlace>& places) {
  if (places.size() == 1) return Cat("group ", places.front().group);
  std::map<uint32_t, uint64_t> counts;
  for (const SessionPlace& place : places) ++counts[place.group];
  std::vector<std::string> groups;
  for (const auto& [group, count] : counts) groups.push_back(Cat(count, " in group ", group));
  return Cat(Plural(places.size(), "session"), ": ", Join(groups, ", "));
}

Json PlaceJson(const std::string& source, const std::vector<SessionPlace>& places) {
  Json sessions = Json::array();
  for (const SessionPlace& place : places) {
    Json scores = Json::array();
    for (const std::optional<double>& score : place.scores) scores.push_back(ValueOrNull(score));
    sessions.push_back({{"session", place.session},
                        {"rule", place.rule},
                        {"group", place.group},
                        {"second", ValueOrNull(place.second)},
                        {"margin", place.margin},
                        {"sure", ValueOrNull(place.sure)},
                        {"tokens", place.tokens},
                        {"known_share", ValueOrNull(place.known_share)},
                        {"scores", std::move(scores)}});
  }
  return {{"source", source}, {"sessions", std::move(sessions)}};
}

}  // namespace moepack::cli
