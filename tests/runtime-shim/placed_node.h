// fixtures/tiny-moe split in three, with a placement table that knows three words.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "libshard/plan/placement.h"
#include "tests/runtime-shim/tiny_node.h"

namespace moepack::runtime {

// Tokens 100 + g favor group g, all others favor none.
inline PlacementTable ThreeTokenTable() {
  PlacementTable table;
  table.prefix_tokens = 4;
  table.margin = 2;
  table.sessions_by_group = {3, 4, 5};
  table.tokens.scale = 1;
  table.tokens.ids = {100, 101, 102};
  table.tokens.scores = {2, -1, -1, -1, 2, -1, -1, -1, 2};
  return table;
}

// Writes the table into the manifest of a distribution.
inline void AddPlacement(const std::string& distribution, const PlacementTable& table) {
  const std::string path = distribution + "/distribution.json";
  auto document = nlohmann::ordered_json::parse(fixtures::ReadFile(path));
  document["routing"]["placement"] = PlacementToJson(table);
  std::ofstream(path, std::ios::binary) << document.dump(2) << "\n";
}

class PlacedDistribution : public TinyDistribution {
 protected:
  static void SetUpTestSuite() {
    TinyDistribution::SetUpTestSuite();
    AddPlacement(path(), ThreeTokenTable());
  }
};

}  // namespace moepack::runtime
