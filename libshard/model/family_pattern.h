// Parses the pattern language of family rows (family.h) for family_match.cc.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "libshard/model/family.h"

namespace moepack {

// One component of a pattern.
struct Token {
  enum class Kind : uint8_t { kLiteral, kLayer, kMtp, kExpert, kAnyNumber, kLeaf, kStar, kRest };
  Kind kind = Kind::kLiteral;
  std::string_view before, after;  // text around the {..} token; a literal is all in `before`
};

// No value when the braces do not hold a known token.
std::optional<Token> ParseToken(std::string_view text);

// The parts between the dots; one, perhaps empty, when there is no dot.
std::vector<std::string_view> Components(std::string_view text);

// One or more decimal digits.
bool IsNumber(std::string_view text);

struct WeightLeaf {
  std::string_view name;
  LeafUse use;
};

// Null when `name` is not in kWeightLeaves.
const WeightLeaf* FindLeaf(std::string_view name);

}  // namespace moepack
