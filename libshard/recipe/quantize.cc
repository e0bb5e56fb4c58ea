#include "libshard/recipe/quantize.h"

#include <algorithm>
#include <map>

#include "libshard/base/text/address.h"
#include "libshard/base/text/expert_ids.h"
#include "libshard/base/text/text.h"
#include "libshard/convert/model_card.h"
#include "libshard/model/gguf_keys.h"
#include "libshard/model/router_digest.h"
#include "libshard/stats/expert_scores.h"

namespace moepack {
namespace {

// Joins fallbacks of one kind in a single note with a count, instead of one note per layer.
void NoteFallbacks(const RecipeResult& recipe, std::vector<std::string>& notes) {
  std::map<std::string, std::vector<std::string>> tensors_of;
  for (const RecipeResult::Fallback& fallback : recipe.fallbacks) {
    tensors_of[Cat(fallback.wanted, " became ", fallback.got, " (", fallback.reason, ")")]
        .push_back(fallback.tensor);
  }
  for (const auto& [what, tensors] : tensors_of) {
    const std::string more =
        tensors.size() == 1 ? "" : Cat(" and ", Plural(tensors.size() - 1, "more tensor"));
    notes.push_back(Cat(tensors[0], more, ": ", what));
  }
}

// "ffn_gate_exps" of "blk.3.ffn_gate_exps.weight".
std::string MatrixOf(const std::string& tensor) {
  const std::optional<BlockName> block = ParseBlockName(tensor);
  return std::string(block ? block->rest.substr(0, block->rest.find('.')) : tensor);
}

void NoteLoans(const TypedGguf& typed, std::vector<std::string>& notes) {
  std::map<std::string, size_t> counts;
  for (const ImatrixLoan& loan : typed.imatrix_use.loans)
    ++counts[Cat(MatrixOf(loan.tensor), " from ", MatrixOf(loan.entry))];
  for (const auto& [what, count] : counts) {
    notes.push_back(Cat(typed.imatrix->file, ": ", what, " in ", Plural(count, "layer"),
                        ": no entry of its own, but both have the same input"));
  }
}

void NoteCoverage(const TypedGguf& typed, std::vector<std::string>& notes) {
  if (!typed.imatrix) return;
  size_t packed = 0;
  for (const GgufTensor& tensor : typed.model.tensors) {
    packed += tensor.importance != nullptr && tensor.expert_count > 0 ? 1 : 0;
  }
  const size_t gaps = typed.imatrix_use.coverage.size(), loans = typed.imatrix_use.loans.size();
  notes.push_back(Cat(typed.imatrix->file, ": data for ", Plural(typed.imatrix_use.used, "tensor"),
                      loans == 0 ? "" : Cat(", ", loans, " of them by the entry of another"), ", ",
                      packed, " of them with an expert axis, ",
                      gaps == 0 ? "every expert of every layer among them"
                                : Cat("some experts missing in ", gaps)));
  NoteLoans(typed, notes);
  for (const ImatrixCoverage& coverage : typed.imatrix_use.coverage) {
    notes.push_back(Cat(typed.imatrix->file, ": ", coverage.tensor, ": no data for experts ",
                        FormatIds(coverage.missing), " of ", coverage.expert_count,
                        ", taken from: ", coverage.filled_from));
  }
  const std::vector<std::string>& unknown = typed.imatrix_use.unknown;
  if (unknown.empty()) return;
  notes.push_back(Cat(typed.imatrix->file, ": ", unknown.size(),
                      unknown.size() == 1 ? " entry names" : " entries name",
                      " no tensor of this model, the first is ", Quoted(unknown[0])));
}

// Refuses an importance matrix that names routers other than the model's.
Status CheckMeasured(const MoeModel& model, TypedGguf& typed) {
  if (!typed.imatrix || typed.imatrix->router_digest.empty()) return Ok();
  SHARD_TRY(const std::string expected, RouterDigest(model));
  SHARD_TRY(const std::string warning,
            CheckRouters(typed.imatrix->shown(), typed.imatrix->router_digest,
                         WithoutSecrets(model.checkpoint().source().string()), expected));
  if (!warning.empty()) typed.model.warnings.push_back(warning);
  return Ok();
}

}  // namespace

Status ChooseTypes(const QuantizeOptions& options, TypedGguf& typed) {
  if (!options.imatrix_file.empty()) {
    SHARD_TRY(typed.imatrix, ReadImatrix(options.imatrix_file));
    if (!options.imatrix_name.empty()) typed.imatrix->file = options.imatrix_name;
    // Before the recipe, because some of llama-quantize's rules ask whether there is importance.
    SHARD_TRY(typed.imatrix_use, ApplyImatrix(*typed.imatrix, typed.model));
    NoteImatrix(*typed.imatrix, typed.model.metadata);
  }
  RecipeOptions recipe = options.recipe;
  if (recipe.recipe.empty() && recipe.pure.empty()) recipe.recipe = "exact";
  SHARD_TRY(typed.recipe, ApplyRecipe(recipe, typed.model));
  return Ok();
}

namespace {

// A calibrated source names its calibration (libshard/calibrate), which is not that of tensors with
// other types.
void DropCalibrationOfSource(GgufModel& model) {
  const bool kept = std::all_of(model.tensors.begin(), model.tensors.end(),
                                [](const auto& tensor) { return tensor.type == tensor.stored; });
  if (kept) return;
  std::vector<std::string> keys;
  for (const GgufEntry& entry : model.metadata.entries())
    if (entry.key.starts_with("moepack.calibration.")) keys.push_back(entry.key);
  for (const std::string& key : keys) model.metadata.Remove(key);
}

}  // namespace

Result<TypedGguf> PrepareGguf(const MoeModel& model, const QuantizeOptions& options) {
  TypedGguf out;
  SHARD_TRY(out.model, ToGguf(model, options.convert));
  if (!options.model_id.empty() && !model.checkpoint().is_gguf()) {
    const std::string name = TitleOf(NameOfId(options.model_id));
    out.model.metadata.Set("general.name", GgufValue::String(name));
  }
  SHARD_CHECK(ChooseTypes(options, out));
  SHARD_CHECK(CheckMeasured(model, out));
  DropCalibrationOfSource(out.model);
  return out;
}

std::vector<std::string> GgufNotes(const TypedGguf& typed) {
  std::vector<std::string> notes = typed.model.warnings;
  notes.insert(notes.end(), typed.model.notes.begin(), typed.model.notes.end());
  if (typed.model.no_tokenizer)
    notes.push_back(Cat("only token ids, no text: ", typed.model.no_tokenizer->message));
  NoteFallbacks(typed.recipe, notes);
  NoteCoverage(typed, notes);
  return notes;
}

}  // namespace moepack
