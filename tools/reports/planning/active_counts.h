// Active parameters, as we count them and as a family's model cards do.
#pragma once

#include <cstdint>
#include <string_view>

#include "libshard/model/model.h"

namespace moepack::cli {

// All zero if top-k is unknown.
struct ActiveCounts {
  uint64_t all = 0;                // ours: every weight that a token uses
  uint64_t without_embedding = 0;  // the input embedding counts as a look-up of one row
  uint64_t without_tables = 0;     // without the head, too
};
ActiveCounts CountActive(const ParameterCount& parameters);

// How the published cards of the model's family count: the figure, and in words what it leaves out
// ("" if nothing). docs/model-summary.md compares with the cards.
struct CardCount {
  uint64_t active = 0;
  std::string_view without;
};
CardCount CountAsCards(const MoeModel& model, const ParameterCount& parameters);

}  // namespace moepack::cli
