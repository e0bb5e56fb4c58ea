// Makes a model's GGUF view and gives every tensor a type: conversion, then importance matrix, then
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
  std::string imatrix_name;  // its name in the metadata; "" for the file's own name
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
// Applies the importance matrix and then the recipe to `typed.model`, whose types are not chosen
// yet. The order matters because some rules depend on whether there is an importance matrix.
Status ChooseTypes(const QuantizeOptions& options, TypedGguf& typed);
// Converts the model, then calls ChooseTypes.
Result<TypedGguf> PrepareGguf(const MoeModel& model, const QuantizeOptions& options);

// What a user should know about the result: rows that forced another type, experts without data in
// the importance matrix, its entries that do not name a tensor, and what the conversion left out.
std::vector<std::string> GgufNotes(const TypedGguf& typed);

}  // namespace moepack
