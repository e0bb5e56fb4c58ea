#include "libshard/recipe/type_list.h"

#include <map>

#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

// For a model that has an importance matrix. Types with one value per block do not use it.
std::string_view ImportanceOf(const GgufTensor& tensor) {
  if (tensor.importance != nullptr) return "used";
  return IsQuantized(*tensor.type) && MayChange(tensor) ? "none" : "no need";
}

}  // namespace

std::vector<TensorType> ListTypes(const TypedGguf& typed) {
  std::map<std::string_view, const RecipeResult::Fallback*> fallbacks;
  for (const RecipeResult::Fallback& fallback : typed.recipe.fallbacks) {
    fallbacks.try_emplace(fallback.tensor, &fallback);
  }
  std::vector<TensorType> out;
  for (size_t i = 0; i < typed.model.tensors.size(); ++i) {
    const GgufTensor& tensor = typed.model.tensors[i];
    TensorType& row = out.emplace_back();
    row.name = tensor.name;
    row.source = tensor.source_tensor;
    row.shape = tensor.shape;
    row.part = tensor.part;
    row.stored = tensor.stored->name;
    row.type = tensor.type->name;
    row.bytes = tensor.bytes();
    row.choice = typed.recipe.choices[i];
    const auto fallback = fallbacks.find(tensor.name);
    if (tensor.type != row.choice.wanted && fallback != fallbacks.end()) {
      row.fallback = fallback->second->reason;
    }
    const quant::Format* overlay = typed.recipe.overlay_types[i];
    if (overlay != nullptr && overlay != tensor.type) row.overlay_type = overlay->name;
    if (typed.imatrix) row.importance = ImportanceOf(tensor);
  }
  return out;
}

}  // namespace moepack
