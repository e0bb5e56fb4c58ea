#include "tools/options/quantize_options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <bit>
#include <nlohmann/json.hpp>

#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text/utf8.h"
#include "libshard/recipe/recipe_list.h"
#include "libshard/recipe/recipe_text.h"
#include "tools/base/sections.h"

namespace moepack::cli {
namespace {

constexpr uint64_t kMaxRuleFile = 1u << 20;

void AddType(CLI::App& app, const char* flag, std::string& type, const char* what) {
  Offer(app.add_option(flag, type, what)->type_name("TYPE"), EncodedTypes());
}

// llama.cpp's type names consist of these characters; it refuses an unknown name when it loads the
// file.
std::string CheckName(const std::string& name) {
  constexpr size_t kLongest = 64;
  const bool good =
      !name.empty() && name.size() <= kLongest &&
      name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-_.") == std::string::npos;
  return good ? "" : "expected the name of a pre-tokenizer, found " + Quoted(name);
}

// Only decimal digits, because CLI11 would read "040" as octal.
std::string AlignmentProblem(std::string& text) {
  const std::optional<uint64_t> value = ParseUint(text);
  if (!value || !std::has_single_bit(*value) || *value < kGgufDefaultAlignment ||
      *value > kMaxGgufAlignment) {
    return Cat("expected a power of two from ", kGgufDefaultAlignment, " to ", kMaxGgufAlignment,
               ", found ", Quoted(text));
  }
  text = std::to_string(*value);
  return "";
}

}  // namespace

std::vector<std::string> RecipeNames() {
  std::vector<std::string> names;
  for (const moepack::Recipe& recipe : AllRecipes()) names.emplace_back(recipe.name);
  return names;
}

// The types that something can be encoded in.
std::vector<std::string> EncodedTypes() {
  std::vector<std::string> names;
  for (const quant::Format& format : quant::AllFormats()) {
    if (format.encode != nullptr) names.emplace_back(format.name);
  }
  return names;
}

bool ChoosesTypes(const QuantizeArguments& arguments) {
  const RecipeOptions& recipe = arguments.options.recipe;
  // RecipeText has every option that determines types, so that none is forgotten here.
  return !recipe.recipe.empty() || !arguments.rule_files.empty() ||
         RecipeText(recipe) != RecipeText({});
}

void AddImatrix(CLI::App& app, std::string& file) {
  app.add_option("--imatrix", file,
                 "Importance matrix of profile or llama-imatrix, as GGUF or in the legacy .dat "
                 "form. Types that take none, such as q8_0, are encoded without it.")
      ->type_name("FILE");
}

void AddImatrices(CLI::App& app, std::vector<std::string>& files) {
  app.add_option("--imatrix", files,
                 "Importance matrix that the distribution was made with. May be repeated, for one "
                 "that was requantized with another.")
      ->type_name("FILE")
      ->allow_extra_args(false);
}

void AddPre(CLI::App& app, std::string& name) {
  app.add_option(
         "--pre", name,
         "The pre-tokenizer's name in llama.cpp, if it is not recognised from tokenizer.json.")
      ->type_name("NAME")
      ->check(CLI::Validator(CheckName, ""));
}

void AddConvertOptions(CLI::App& app, ConvertOptions& options) {
  AddPre(app, options.pre);
  app.add_flag(
      "--mtp,!--no-mtp", options.mtp,
      "With --no-mtp, leave out blocks for multi-token prediction that the conversion would keep "
      "or that a GGUF source has or only announces.");
}

void AddAlignment(CLI::App& app, uint64_t& alignment) {
  StartSection(app, "Output");
  app.add_option("--alignment", alignment,
                 "GGUF: start every tensor at a multiple of this power of two, such as 4096 for "
                 "readers that need pages (zero-copy, O_DIRECT). Default: 32, the format's own. "
                 "Files with another one are corrupted, without a warning, by llama.cpp's "
                 "llama-quantize and llama-gguf-split --merge: both copy general.alignment but lay "
                 "the data out at 32.")
      ->type_name("N")
      ->transform(CLI::Validator(AlignmentProblem, ""));
}

void AddQuantizeOptions(CLI::App& app, QuantizeArguments& arguments) {
  StartSection(app, "Conversion and quantization");
  RecipeOptions& recipe = arguments.options.recipe;
  CLI::Option* name =
      app.add_option(
             "--recipe,--quantize", recipe.recipe,
             Cat("Choose types as llama-quantize does, or by a profile. One of: ",
                 moepack::Join(RecipeNames(), ", "), ". Names are read without regard to case."))
          ->type_name("RECIPE");
  Offer(name, RecipeNames());
  CLI::Option* pure =
      app.add_option("--pure", recipe.pure,
                     "One type for every matrix and packed tensor, instead of a recipe.")
          ->type_name("TYPE")
          ->excludes(name);
  Offer(pure, EncodedTypes());
  AddImatrix(app, arguments.options.imatrix_file);
  AddType(app, "--trunk-type", recipe.trunk_type, "Type of the trunk's matrices.");
  AddType(app, "--experts-type", recipe.experts_type, "Type of the routed experts.");
  AddType(app, "--output-tensor-type", recipe.output_type, "Type of output.weight.");
  AddType(app, "--token-embedding-type", recipe.embedding_type, "Type of token_embd.weight.");
  app.add_option("--tensor-type,--custom-q", recipe.tensor_types,
                 "Type of the tensors whose GGUF name matches the regular expression, such as "
                 "ffn_down_exps=q6_K. May be repeated or joined by commas; the first match wins.")
      ->type_name("REGEX=TYPE")
      ->allow_extra_args(false);
  app.add_option("--tensor-type-file", arguments.rule_files,
                 "The same from a file: one or more rules per line, # starts a comment.")
      ->type_name("FILE")
      ->allow_extra_args(false);
  app.add_flag("--allow-requantize", recipe.allow_requantize,
               "Let tensors that are already quantized get another type. This loses quality.");
  app.add_flag("--repack,!--no-repack", recipe.repack,
               "Where the source's numbers fit into the type unchanged (int4 in q4_0, MXFP4 in "
               "mxfp4), keep them; with --no-repack they are decoded and encoded as by ggml.");
  AddConvertOptions(app, arguments.options.convert);
  AddAlignment(app, arguments.options.alignment);
}

void AddNamedFiles(const QuantizeArguments& arguments, std::vector<std::string>& files) {
  files.push_back(arguments.options.imatrix_file);
  files.insert(files.end(), arguments.rule_files.begin(), arguments.rule_files.end());
}

std::span<const char* const> TypeOptions() {
  static constexpr std::array kNames = {"--recipe",
                                        "--pure",
                                        "--trunk-type",
                                        "--experts-type",
                                        "--output-tensor-type",
                                        "--token-embedding-type",
                                        "--tensor-type",
                                        "--tensor-type-file"};
  return kNames;
}

bool WantsTypes(const QuantizeArguments& arguments) {
  const ConvertOptions& convert = arguments.options.convert;
  return ChoosesTypes(arguments) || !convert.mtp || !convert.pre.empty();
}

Status CheckQuantizeOptions(const QuantizeArguments& arguments) {
  if (ChoosesTypes(arguments)) return Ok();
  const char* ignored = !arguments.options.imatrix_file.empty()     ? "--imatrix"
                        : arguments.options.recipe.allow_requantize ? "--allow-requantize"
                                                                    : nullptr;
  if (ignored == nullptr) return Ok();
  return Error{Code::kInvalidArgument, Cat(ignored, " has no effect: nothing is quantized"),
               "name a recipe too, such as --recipe Q4_K_M"};
}

Result<QuantizeOptions> ReadQuantizeOptions(const QuantizeArguments& arguments) {
  SHARD_CHECK(CheckQuantizeOptions(arguments));
  QuantizeOptions options = arguments.options;
  for (const std::string& file : arguments.rule_files) {
    SHARD_TRY(std::string text, ReadTextFile(file, kMaxRuleFile));
    if (!IsUtf8(text)) {
      return Error{Code::kCorrupt, Cat(file, ": rules: expected UTF-8, found other bytes")};
    }
    options.recipe.tensor_types.push_back(std::move(text));
  }
  return options;
}

std::vector<std::string> RecordQuantizeOptions(const char* flag,
                                               const QuantizeArguments& arguments) {
  const QuantizeOptions& options = arguments.options;
  const RecipeOptions& recipe = options.recipe;
  std::vector<std::string> words;
  const auto add = [&](const char* name, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {name, value});
  };
  add(flag, recipe.recipe);
  add("--pure", recipe.pure);
  add("--imatrix", FileName(options.imatrix_file));
  add("--trunk-type", recipe.trunk_type);
  add("--experts-type", recipe.experts_type);
  add("--overlay-type", recipe.overlay_type);
  add("--output-tensor-type", recipe.output_type);
  add("--token-embedding-type", recipe.embedding_type);
  for (const std::string& rule : recipe.tensor_types) add("--tensor-type", rule);
  for (const std::string& file : arguments.rule_files) add("--tensor-type-file", FileName(file));
  if (recipe.allow_requantize) words.emplace_back("--allow-requantize");
  if (!recipe.repack) words.emplace_back("--no-repack");
  add("--pre", options.convert.pre);
  if (!options.convert.mtp) words.emplace_back("--no-mtp");
  if (options.alignment != kGgufDefaultAlignment)
    add("--alignment", std::to_string(options.alignment));
  return words;
}

std::vector<std::string> NotFiniteWarnings(const PackResult& pack) {
  std::vector<std::string> warnings;
  for (const auto& [tensor, count] : pack.not_finite) {
    warnings.push_back(Cat("tensor ", Quoted(tensor),
                           ": expected finite values, found NaN or infinity ",
                           Plural(count, "time")));
  }
  return warnings;
}

std::vector<std::string> GridNotes(const PackResult& pack) {
  const GridReport& grid = pack.grid;
  if (grid.weights == 0) return {};
  std::string note =
      Cat(FormatCount(grid.weights), " weights keep the grid of their source: of ",
          FormatCount(grid.scales), " scales ", FormatCount(grid.exact), " are exact");
  if (grid.exact < grid.scales) {
    note += Cat(", the others were rounded, by at most ", grid.rounding * 100, " %");
  }
  return {note};
}

moepack::Json GridJson(const PackResult& pack) {
  const GridReport& grid = pack.grid;
  return {{"weights", grid.weights},
          {"scales", grid.scales},
          {"exact_scales", grid.exact},
          {"largest_rounding", grid.rounding}};
}

}  // namespace moepack::cli
