// Active parameters, as we count them and as the model cards of a family do.
#pragma once

#include <cstdint>
#include <string_view>

#include "libshard/model/model.h"

namespace moepack::cli {

// All zero where top-k is not known.
struct ActiveCounts {
  uint64_t all = 0;                // ours: every weight that a token uses
  uint64_t without_embedding = 0;  // the input embedding is a look-up of one row
  uint64_t without_tables = 0;     // nor the head
};
ActiveCounts CountActive(const ParameterCount& parameters);

// How the published cards of the model's family count: the figure, and in words what it leaves out
// ("" when nothing). docs/model-summary.md compares with the cards.
struct CardCount {
  uint64_t active = 0;
  std::string_view without;
};
CardCount CountAsCards(const MoeModel& model, const ParameterCount& parameters);

}  // namespace moepack::cli
