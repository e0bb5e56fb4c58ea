#include "libshard/recipe/recipe.h"

#include <algorithm>
#include <map>
#include <optional>

#include "libshard/base/text/text.h"
#include "libshard/recipe/recipe_list.h"
#include "libshard/recipe/recipe_llama.h"
#include "libshard/recipe/recipe_override.h"
#include "libshard/recipe/recipe_types.h"

namespace moepack {
namespace {

// What decides if no override does: a profile, --pure, or a recipe of llama-quantize.
class Base {
 public:
  static Result<Base> Make(const RecipeOptions& options, const GgufModel& model) {
    Base base;
    if (!options.pure.empty() && !options.recipe.empty()) {
      return Error{Code::kInvalidArgument,
                   Cat("--pure ", Quoted(options.pure), ": expected no recipe beside it, found ",
                       Quoted(options.recipe))};
    }
    if (!options.pure.empty()) {
      SHARD_TRY(base.pure_, ParseTargetType("--pure", options.pure));
      return base;
    }
    SHARD_TRY(const Recipe* recipe, RequireRecipe(options.recipe));
    base.file_type_ = recipe->file_type;
    base.profile_ = recipe->profile;
    base.rule_ = Cat(base.profile_ != nullptr ? "profile " : "recipe ", recipe->name);
    if (base.profile_ == nullptr) base.rules_.emplace(*recipe, model, options.measured_later);
    return base;
  }

  // general.file_type; no value means that of the most frequent type.
  std::optional<uint32_t> file_type() const { return file_type_; }

  // REQUIRES: MayChange(tensor), tensors in LlamaOrder.
  Result<TypeChoice> Choose(const GgufTensor& tensor, bool allow_requantize) {
    if (profile_ != nullptr) {
      return TypeChoice{rule_, ProfileColumn(*profile_, tensor), ProfileType(*profile_, tensor)};
    }
    if (pure_ != nullptr) return TypeChoice{"--pure", "", pure_};
    SHARD_TRY(const LlamaChoice choice, rules_->Choose(tensor));
    // llama.cpp's convert_hf_to_gguf.py also keeps MXFP4 weights unchanged in a file of a
    // floating-point type.
    const bool keep =
        !IsQuantized(*choice.type) && tensor.stored->name == "mxfp4" && !allow_requantize;
    if (keep) return TypeChoice{rule_, "MXFP4 stays", tensor.stored};
    const bool base = choice.type == rules_->base();
    return TypeChoice{rule_, Cat(choice.category, base ? ": base type" : ": another type"),
                      choice.type};
  }

 private:
  Base() = default;
  std::string rule_;  // as TypeChoice::rule
  const quant::Format* pure_ = nullptr;
  const ProfileTypes* profile_ = nullptr;
  std::optional<LlamaRules> rules_;
  std::optional<uint32_t> file_type_;
};

// Returns `wanted`, or the type that the tensor's rows allow instead, which is then noted in
// `result`.
const quant::Format* Fit(const GgufTensor& tensor, const quant::Format* wanted,
                         RecipeResult& result) {
  const quant::Format* type = FallbackFor(wanted, tensor.row_values());
  if (type == wanted) return type;
  result.fallbacks.push_back({tensor.name, std::string(wanted->name), std::string(type->name),
                              Cat("rows of ", tensor.row_values(), " values, ", wanted->name,
                                  " needs a multiple of ", wanted->block_values)});
  return type;
}

// Chooses the type of one tensor. Overrides come first even if the tensor keeps its type, so that a
// rule that names its present type counts as used.
Result<TypeChoice> ChooseType(const RecipeOptions& options, const GgufTensor& tensor, Base& base,
                              TypeOverrides& overrides) {
  SHARD_TRY(const TypeOverride* rule, overrides.Find(tensor));
  const std::string_view kept = ReasonToKeep(tensor);
  if (!kept.empty()) return TypeChoice{"keeps its type", std::string(kept), KeptType(tensor)};
  if (rule != nullptr) return TypeChoice{rule->option, rule->expression, rule->type};
  return base.Choose(tensor, options.allow_requantize);
}

// Experts of the overlay get the type of --overlay-type, unless a regular expression decides on
// them.
Status ChooseOverlayTypes(const std::string& name, const GgufModel& model, TypeOverrides& overrides,
                          RecipeResult& result) {
  const std::string option = "--overlay-type";
  SHARD_TRY(const quant::Format* type, ParseTargetType(option, name));
  bool used = false;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const GgufTensor& tensor = model.tensors[i];
    if (tensor.part != Part::kExpert || !MayChange(tensor)) continue;
    SHARD_TRY(const TypeOverride* rule, overrides.Find(tensor));
    if (rule != nullptr && rule->kind == TypeOverride::Kind::kRegex) continue;
    used = true;
    result.overlay_types[i] = Fit(tensor, type, result);
  }
  if (used) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(option, ": expected an expert tensor that may get this type, found none")};
}

// Returns Base::file_type.
Result<std::optional<uint32_t>> ChooseTypes(const RecipeOptions& options, GgufModel& model,
                                            RecipeResult& result) {
  SHARD_TRY(Base base, Base::Make(options, model));
  SHARD_TRY(TypeOverrides overrides, TypeOverrides::Make(options, model));
  result.choices.resize(model.tensors.size());
  for (const size_t index : LlamaOrder(model.tensors)) {
    GgufTensor& tensor = model.tensors[index];
    SHARD_TRY(TypeChoice choice, ChooseType(options, tensor, base, overrides));
    tensor.type = MayChange(tensor) ? Fit(tensor, choice.wanted, result) : choice.wanted;
    result.choices[index] = std::move(choice);
  }
  SHARD_CHECK(overrides.CheckAllUsed());
  if (std::string hidden = overrides.HiddenRules(); !hidden.empty())
    model.notes.push_back(std::move(hidden));
  result.overlay_types.resize(model.tensors.size(), nullptr);
  if (!options.overlay_type.empty()) {
    SHARD_CHECK(ChooseOverlayTypes(options.overlay_type, model, overrides, result));
  }
  return base.file_type();
}

// Checks that the stored data can become `type`.
Status CheckChange(const GgufTensor& tensor, const quant::Format* type, bool allow_requantize) {
  if (type == nullptr || type == tensor.stored) return Ok();
  const std::string where = Cat("tensor ", Quoted(tensor.name));
  if (IsQuantized(*tensor.stored) && !allow_requantize) {
    return Error{Code::kUnsupported,
                 Cat(where, ": expected F32, F16 or BF16 to make ", type->name, " of, found ",
                     tensor.stored->name),
                 "quantizing twice costs quality: start from the original weights, or add "
                 "--allow-requantize"};
  }
  if (tensor.literal.empty() && tensor.stored->decode == nullptr) {
    return Error{
        Code::kUnsupported,
        Cat(where, ": expected a type that this version can decode, found ", tensor.stored->name)};
  }
  if (type->encode != nullptr) return Ok();
  return Error{Code::kUnsupported,
               Cat(where, ": expected a type that this version can encode, found ", type->name)};
}

// What to do about a matrix without importance. Nobody collects it for the embedding, whose rows
// are looked up and not multiplied.
std::string ImportanceHint(const GgufModel& model, const GgufTensor& tensor) {
  if (IsEmbedding(tensor.name)) {
    return "an importance matrix has no data for the embedding: choose a type of more bits for it "
           "with --token-embedding-type";
  }
  if (IsOutput(tensor.name)) {
    return "only llama-imatrix --process-output collects data for the output: choose a type of "
           "more bits for it with --output-tensor-type";
  }
  const bool given =
      std::any_of(model.tensors.begin(), model.tensors.end(),
                  [](const GgufTensor& other) { return other.importance != nullptr; });
  if (given) return "make the importance matrix from more text, or choose a type of more bits";
  return "give --imatrix FILE, as profile --imatrix or llama-imatrix writes it, or --calibrate "
         "with quantize or build, or choose a type of more bits";
}

// Returns the file type of the type that most of the values that a recipe may change have.
uint32_t MostFrequentFileType(const GgufModel& model) {
  std::map<std::string_view, uint64_t> values;
  const quant::Format* most = KnownType("f32");
  for (const GgufTensor& tensor : model.tensors) {
    if (!MayChange(tensor)) continue;
    const uint64_t count = values[tensor.type->name] += tensor.elements();
    if (count > values[most->name]) most = tensor.type;
  }
  return FileTypeOf(*most);
}

bool KeepsAllTypes(const GgufModel& model) {
  return std::all_of(model.tensors.begin(), model.tensors.end(),
                     [](const GgufTensor& tensor) { return tensor.type == tensor.stored; });
}

// If no type was changed, the source's own file type still describes the file.
uint32_t FileTypeFor(const GgufModel& model) {
  const auto own = model.metadata.Uint("general.file_type");
  if (own && *own <= INT32_MAX && KeepsAllTypes(model)) return static_cast<uint32_t>(*own);
  return MostFrequentFileType(model);
}

}  // namespace

Status CheckImportance(const GgufModel& model, const GgufTensor& tensor, const quant::Format* type,
                       const std::string& rule, std::string_view recipe) {
  if (type == nullptr || type == tensor.stored || tensor.importance != nullptr) return Ok();
  const bool outside = IsOutput(tensor.name) || IsEmbedding(tensor.name);
  if (!RequiresImportance(*type, recipe, outside)) return Ok();
  return Error{Code::kInvalidArgument,
               Cat("tensor ", Quoted(tensor.name), ": ", rule,
                   ": expected an importance matrix with "
                   "data for it to make ",
                   type->name, " of it, found none"),
               ImportanceHint(model, tensor)};
}

Result<RecipeResult> ApplyRecipe(const RecipeOptions& options, GgufModel& model) {
  RecipeResult result;
  // Expert ids are only copied.
  for (GgufTensor& tensor : model.tensors)
    tensor.repack = options.repack || tensor.stored->encode == nullptr;
  SHARD_TRY(const std::optional<uint32_t> file_type, ChooseTypes(options, model, result));
  const Recipe* named = FindRecipe(options.recipe);
  const std::string_view recipe = named == nullptr ? std::string_view() : named->name;
  for (size_t i = 0; i < model.tensors.size(); ++i) {
    const GgufTensor& tensor = model.tensors[i];
    SHARD_CHECK(CheckChange(tensor, tensor.type, options.allow_requantize));
    SHARD_CHECK(CheckChange(tensor, result.overlay_types[i], options.allow_requantize));
    if (!options.measured_later)
      SHARD_CHECK(CheckImportance(model, tensor, tensor.type, result.choices[i].rule, recipe));
    SHARD_CHECK(CheckImportance(model, tensor, result.overlay_types[i], "--overlay-type", recipe));
  }
  // The version of ggml's block layouts (GGML_QNT_VERSION of ggml.h).
  constexpr uint32_t kQuantizationVersion = 2;
  model.metadata.Set("general.file_type",
                     GgufValue::U32(file_type ? *file_type : FileTypeFor(model)));
  model.metadata.Set("general.quantization_version", GgufValue::U32(kQuantizationVersion));
  return result;
}

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
