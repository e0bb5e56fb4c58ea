// Options that determine every tensor's type, for all commands that write GGUF.
#pragma once

#include <CLI/App.hpp>
#include <span>
#include <string>
#include <vector>

#include "libshard/base/text/json.h"
#include "libshard/pack/pack.h"
#include "libshard/recipe/quantize.h"
#include "tools/base/command.h"

namespace moepack::cli {

// The names of all recipes, and of the types that something can be encoded in.
std::vector<std::string> RecipeNames();
std::vector<std::string> EncodedTypes();

struct QuantizeArguments {
  QuantizeOptions options;
  std::vector<std::string> rule_files;  // --tensor-type-file
};

// --recipe, which may be spelled --quantize, and the other options that choose types.
void AddQuantizeOptions(CLI::App& app, QuantizeArguments& arguments);
void AddNamedFiles(const QuantizeArguments& arguments, std::vector<std::string>& files);
void AddImatrix(CLI::App& app, std::string& file);
// The same for several: a requantized distribution may have one for each of its steps.
void AddImatrices(CLI::App& app, std::vector<std::string>& files);
void AddPre(CLI::App& app, std::string& name);
// --pre, --no-mtp.
void AddConvertOptions(CLI::App& app, ConvertOptions& options);
void AddAlignment(CLI::App& app, uint64_t& alignment);

// The names of the options that choose types, as AddQuantizeOptions adds them: for options that
// exclude all of them.
std::span<const char* const> TypeOptions();
// Whether anything says what to quantize to.
bool ChoosesTypes(const QuantizeArguments& arguments);
// Whether an option was given that only applies to GGUF bundles.
bool WantsTypes(const QuantizeArguments& arguments);
// kInvalidArgument for options that would be ignored: an importance matrix, or permission to
// requantize, if nothing is quantized.
Status CheckQuantizeOptions(const QuantizeArguments& arguments);
// The options, checked; rules from files come after those of the command line.
Result<QuantizeOptions> ReadQuantizeOptions(const QuantizeArguments& arguments);
// The options as distribution.json records them: file names have no directories.
std::vector<std::string> RecordQuantizeOptions(const char* flag,
                                               const QuantizeArguments& arguments);

// One warning per tensor in which values are not finite.
std::vector<std::string> NotFiniteWarnings(const PackResult& pack);

// How well the source's own grid was kept, if it was: as at most one note, and for --json.
std::vector<std::string> GridNotes(const PackResult& pack);
moepack::Json GridJson(const PackResult& pack);

}  // namespace moepack::cli
