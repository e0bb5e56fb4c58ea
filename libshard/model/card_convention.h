// How the model cards of a family count active parameters. docs/model-summary.md compares with the
// cards.
#pragma once

#include <cstdint>

namespace moepack {

enum class CardConvention : uint8_t {
  kAll,               // every weight that a token uses, as moepack counts
  kWithoutEmbedding,  // the input embedding is a look-up of one row
  kWithoutTables,     // nor the head
};

}  // namespace moepack
