// The output of place.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "libshard/plan/placement.h"
#include "runtime-shim/eval/race.h"
#include "tools/base/command.h"

namespace moepack::cli {

// The group that a rule names for a session.
struct SessionPlace {
  std::string session;
  std::string rule;  // "table", "probe" or "race"
  uint32_t group = 0;
  std::optional<uint32_t> second = std::nullopt;  // if the rule ranks all
  // The lead over the second: nats for the table, a share of the gates for the probe, nats per
  // token for the race.
  double margin = 0;
  std::optional<bool> sure = std::nullopt;  // of the table
  uint32_t tokens = 0;                      // that were considered
  std::optional<double> known_share = std::nullopt;
  std::vector<std::optional<double>> scores = {};  // by group; empty for the race
};

SessionPlace PlaceByTable(const std::string& session, const PlacementAnswer& answer);
// Scores of Node::ProbeScore, one per group. REQUIRES: at least one.
SessionPlace PlaceByProbe(const std::string& session, const std::vector<double>& scores,
                          uint32_t tokens);
// `groups` are those that raced.
SessionPlace PlaceByRace(const std::string& session, const std::vector<uint32_t>& groups,
                         const runtime::RaceResult& race);

// A plan's line about its table: rows, and the trial.
std::string PlacementLine(const PlacementTable& table);

std::string PlaceText(const std::vector<SessionPlace>& places);
// "group 1" for one session, "12 sessions: 5 in group 0, 7 in group 1" for several.
std::string PlaceLine(const std::vector<SessionPlace>& places);
moepack::Json PlaceJson(const std::string& source, const std::vector<SessionPlace>& places);

}  // namespace moepack::cli
