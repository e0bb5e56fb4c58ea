#include "libshard/recipe/recipe_profile.h"

#include <algorithm>
#include <array>

#include "libshard/recipe/recipe_llama.h"
#include "libshard/recipe/recipe_types.h"

namespace shard {
namespace {

// Routed experts are nearly all of the bytes and the least sensitive; of their matrices `down`
// needs the most care. docs/quantization.md gives the bits per weight.
constexpr std::array kProfiles = {
    Profile{"exact", "", "", "", ""},
    Profile{"high", "q8_0", "q8_0", "q5_K", "q6_K"},
    Profile{"balanced", "q8_0", "q8_0", "q4_K", "q5_K"},
    Profile{"compact", "q8_0", "q6_K", "q3_K", "iq4_xs"},
};

struct Column {
  std::string_view name;  // in docs/quantization.md
  std::string_view type;
};

Column ColumnOf(const Profile& profile, const GgufTensor& tensor) {
  if (tensor.part == Part::kExpert) {
    const bool down = tensor.name.find("ffn_down") != std::string::npos;
    return down ? Column{"down", profile.down} : Column{"gate, up", profile.gate_up};
  }
  if (IsEmbedding(tensor.name)) return {"token embedding", profile.embedding};
  return {"trunk", profile.trunk};
}

}  // namespace

const Profile* FindProfile(std::string_view name) {
  const auto found = std::find_if(kProfiles.begin(), kProfiles.end(),
                                  [&](const Profile& profile) { return profile.name == name; });
  return found == kProfiles.end() ? nullptr : &*found;
}

std::string ProfileColumn(const Profile& profile, const GgufTensor& tensor) {
  return std::string(ColumnOf(profile, tensor).name);
}

const quant::Format* ProfileType(const Profile& profile, const GgufTensor& tensor) {
  const std::string_view name = ColumnOf(profile, tensor).type;
  if (!name.empty()) return KnownType(name);
  const quant::Format* grid = KnownType("q4_0");
  return tensor.KeepsGrid(grid) ? grid : KeptType(tensor);
}

}  // namespace shard
