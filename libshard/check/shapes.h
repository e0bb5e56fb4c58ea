// The module that each tensor belongs to, the shape that follows from the sizes in the config,
// and the check that tensors have it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/check/finding.h"
#include "libshard/check/promise.h"
#include "libshard/model/model.h"

namespace moepack {

enum class Module : uint8_t {
  kGate,     // [width, hidden]
  kUp,       // [width, hidden]
  kFusedIn,  // gate above up
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

// Finds the module of a component such as "q_proj" or, in GGUF, "ffn_gate_shexp", in all families.
std::optional<Module> ModuleNamed(std::string_view name);
// Finds the module of a tensor. For experts the role of their row decides, because their
// projections have many names.
std::optional<Module> ModuleOf(std::string_view role, std::string_view name);

// Dimensions, slowest first; 0 means unknown and fits everything. `why` names the fields they come
// from. Linear layers are [out, in]; quantized ones keep several values in one element of the last
// dimension.
struct Dims {
  std::vector<uint64_t> sizes;
  const char* why = "";
  bool operator==(const Dims&) const = default;
};

struct ShapeQuestion {
  const ModelTensor& tensor;
  const std::string& name;
  std::string_view leaf;      // see LeafOf
  uint32_t expert_count = 0;  // of its layer
};

class ExpectedShapes {
 public:
  // With `latent`, attention is latent whatever the config says. Borrows the promise.
  ExpectedShapes(const ModelPromise& promise, bool latent) : promise_(promise), latent_(latent) {}

  // Gives no value for a tensor about which nothing is known.
  std::optional<Dims> Of(const ShapeQuestion& question) const;

 private:
  const ModelPromise& promise_;
  const bool latent_;
};

// Looks at every tensor whose role and name say what its dimensions are. Equal findings on several
// tensors become one, which names the first. REQUIRES: the shapes are known (not names only).
void CheckShapes(const MoeModel& model, const ModelPromise& promise,
                 std::vector<CheckFinding>& findings);

}  // namespace moepack
