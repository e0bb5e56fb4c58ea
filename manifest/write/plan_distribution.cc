#include "libshard/base/text/text.h"
#include "libshard/pack/slice_gguf.h"
#include "manifest/document/describe_model.h"
#include "manifest/write/bundle.h"

namespace moepack::manifest {
namespace {

Status PlanGguf(const MoeModel& model, const Plan& plan, const WriteOptions& options,
                WritePlan& out) {
  QuantizeOptions quantize = *options.gguf;
  quantize.model_id = options.model_id;
  SHARD_TRY(const TypedGguf typed, PrepareGguf(model, quantize));
  out.notes = GgufNotes(typed);
  out.warnings = typed.model.faults;
  if (options.list_types) out.types = ListTypes(typed);
  out.recipe = DescribeRecipe(*options.gguf, typed);
  if (!options.gguf->convert.mtp) out.recipe.name += " --no-mtp";
  // The conversion may leave out blocks for multi-token prediction; the plan follows it.
  out.plan = moepack::PlanFor(typed.model, plan);
  const GgufSlicing slicing{typed.model, model.Version(""), typed.recipe.overlay_types,
                            options.gguf->alignment, typed.imatrix ? &*typed.imatrix : nullptr};
  auto files = SliceGguf(slicing, out.plan, options.slice);
  if (!files) return std::move(files).error().Within(model.checkpoint().source().string());
  out.files = std::move(files).value();
  return Ok();
}

}  // namespace

uint64_t WritePlan::total_bytes() const {
  uint64_t total = 0;
  for (const OutputFile& file : files) total += file.size;
  for (const Asset& asset : assets) total += asset.size;
  return total;
}

Result<WritePlan> PlanDistribution(const MoeModel& model, const Plan& plan,
                                   const WriteOptions& options) {
  WritePlan out;
  out.plan = plan;
  if (options.gguf) {
    SHARD_CHECK(PlanGguf(model, plan, options, out));
  } else if (model.checkpoint().is_gguf()) {
    return Error{Code::kUnsupported, Cat("--format safetensors cannot be written from ",
                                         model.checkpoint().source().string(), ", which is GGUF")};
  } else {
    SHARD_TRY(out.files, SliceSafetensors(model, plan, options.slice));
  }
  if (options.slice.parts.WantsAssets()) {
    SHARD_TRY(out.assets, ListAssets(*model.checkpoint().tree()));
  }
  if (!out.files.empty() || !out.assets.empty()) return out;
  return Error{
      Code::kInvalidArgument, "--only chooses nothing that this plan has",
      "the plan has no overlay or remainder, or the source no assets: leave that part out"};
}

}  // namespace moepack::manifest
