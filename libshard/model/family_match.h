// Names of tensors by the rows of a family: the pattern language (see family.h), and new numbers
// for experts.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/model/family.h"

namespace moepack {

// One component of a pattern.
struct Token {
  enum class Kind : uint8_t { kLiteral, kLayer, kMtp, kExpert, kAnyNumber, kLeaf, kStar, kRest };
  Kind kind = Kind::kLiteral;
  std::string_view before, after;  // text around the {..} token; a literal is all in `before`
};

// Returns no value if the braces do not hold a known token.
std::optional<Token> ParseToken(std::string_view text);

// Splits at the dots. Text without a dot is one part, which may be empty.
std::vector<std::string_view> Components(std::string_view text);

// True for one or more decimal digits.
bool IsNumber(std::string_view text);

struct WeightLeaf {
  std::string_view name;
  LeafUse use;
  bool affects_numbers = true;  // see AffectsNumbers
};

std::span<const WeightLeaf> WeightLeaves();
// Null if `name` is none of them.
const WeightLeaf* FindLeaf(std::string_view name);

// Whether the row is that of tensors that belong to several experts each, which runtimes find by
// the numbers of these experts (GroveMoE). Nodes that lack experts of the layer cannot have them.
bool IsOfChunks(const TensorRule* rule);
inline constexpr std::string_view kChunkProblem =
    "expected experts of their own, found one that belongs to several experts, some of which are "
    "not on this node";

// Whether a tensor's name spells the experts of a layer as MLX does.
bool HasMlxExperts(std::string_view tensor);

// Says whose spelling a tensor's name has, to be appended to a message about it: " (switch_mlp is
// MLX's name for the experts of a layer)"; "" if it is no other project's.
std::string_view WhoseName(std::string_view tensor);

// Renumbers experts in tensor names, because node directories count their experts from 0.

// Returns `name` with its expert id replaced: "model.layers.3.mlp.experts.17.up_proj.weight" and 4
// -> "model.layers.3.mlp.experts.4.up_proj.weight". The id is the last number between dots. It is
// kUnsupported if the family does not read the new name as the same tensor of expert `id`.
Result<std::string> RenumberExpert(FamilyMatcher& matcher, const std::string& name, uint32_t id);

}  // namespace moepack
