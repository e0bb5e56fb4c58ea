#include "libshard/recipe/recipe_profile.h"

#include "libshard/recipe/recipe_llama.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

struct Column {
  std::string_view name;  // in docs/quantization.md
  std::string_view type;
};

Column ColumnOf(const ProfileTypes& profile, const GgufTensor& tensor) {
  if (tensor.part == Part::kExpert) {
    const bool down = tensor.name.find("ffn_down") != std::string::npos;
    return down ? Column{"down", profile.down} : Column{"gate, up", profile.gate_up};
  }
  if (IsEmbedding(tensor.name)) return {"token embedding", profile.embedding};
  return {"trunk", profile.trunk};
}

}  // namespace

std::string ProfileColumn(const ProfileTypes& profile, const GgufTensor& tensor) {
  return std::string(ColumnOf(profile, tensor).name);
}

const quant::Format* ProfileType(const ProfileTypes& profile, const GgufTensor& tensor) {
  const std::string_view name = ColumnOf(profile, tensor).type;
  if (!name.empty()) return KnownType(name);
  const quant::Format* grid = KnownType("q4_0");
  return tensor.KeepsGrid(grid) ? grid : KeptType(tensor);
}

}  // namespace moepack
