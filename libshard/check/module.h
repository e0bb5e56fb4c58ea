// The modules that tensors belong to, by the last component of their names: one table for all
// checks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace moepack {

enum class Module : uint8_t {
  kGate,     // [width, hidden]
  kUp,       // [width, hidden]
  kFusedIn,  // these two above each other
  kDown,     // [hidden, width]
  kQuery,
  kKey,  // keys and values
  kAttentionOut,
  kQueryA,
  kQueryB,
  kLatentA,
  kLatentB,
  kQueryANorm,
  kLatentNorm,
  kNorm,  // one number per hidden channel
  kVocabulary,
  kJoin,  // [hidden, 2 * hidden]: hidden state and embedding of the next token
};

// "q_proj" and, in GGUF, "ffn_gate_shexp"; over all families.
std::optional<Module> ModuleNamed(std::string_view name);
// Experts say it by the role of their row, as their projections have many names.
std::optional<Module> ModuleOf(std::string_view role, std::string_view name);

}  // namespace moepack
