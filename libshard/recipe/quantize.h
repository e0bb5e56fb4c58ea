// From a model to its GGUF view with a type for every tensor: conversion, importance matrix,
// recipe.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "libshard/base/result.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/format/gguf.h"
#include "libshard/model/model.h"
#include "libshard/recipe/imatrix.h"
#include "libshard/recipe/recipe.h"

namespace moepack {

struct QuantizeOptions {
  RecipeOptions recipe;      // without a name and `pure`: the profile "exact"
  std::string imatrix_file;  // "" for none
  std::string imatrix_name;  // what the metadata calls it; "" for the file's own name
  std::string model_id;      // general.name of a converted model: "owner/name"; "" for its own
  ConvertOptions convert;
  uint64_t alignment = kGgufDefaultAlignment;  // of tensors in the files
};

struct TypedGguf {
  GgufModel model;
  RecipeResult recipe;
  std::optional<Imatrix> imatrix;
  ImatrixUse imatrix_use;
};
// Importance, then recipe, for `typed.model`, which has no types of its own yet.
Status ChooseTypes(const QuantizeOptions& options, TypedGguf& typed);
// Conversion of the model, then ChooseTypes.
Result<TypedGguf> PrepareGguf(const MoeModel& model, const QuantizeOptions& options);

// What a user should know of it: rows that forced another type, experts that the importance matrix
// knows nothing of, entries that name no tensor, what the conversion left out.
std::vector<std::string> GgufNotes(const TypedGguf& typed);

}  // namespace moepack
