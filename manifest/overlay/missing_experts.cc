#include "manifest/overlay/missing_experts.h"

#include <utility>

#include "libshard/base/text/text.h"
#include "manifest/verify/remake.h"

namespace moepack::manifest {

Result<MissingExperts> LayOutMissing(const Manifest& manifest, const LayerExperts& experts_by_layer,
                                     const OverlaySource& source, uint64_t alignment) {
  MissingExperts out;
  SHARD_TRY(MoeModel model, MoeModel::Open(*source.source, source.model));
  out.model = std::make_unique<MoeModel>(std::move(model));
  const std::string found = out.model->Version(manifest.model.revision);
  if (found != manifest.versions.model) {
    return Error{Code::kMismatch,
                 Cat(source.source->named.string(), ": model version: expected ",
                     manifest.versions.model, " as in the distribution, found ", found),
                 "--source is the model that the distribution was made of"};
  }
  // The experts form an overlay of their own, because they have the types of overlays.
  constexpr const char* kVersion = "missing";
  Manifest wanted = manifest;
  wanted.plan.overlays.clear();
  wanted.plan.overlays.push_back({kVersion, "", experts_by_layer, {}});
  std::vector<QuantizeOptions> steps;
  if (manifest.is_gguf()) {
    SHARD_TRY(steps, StepsOf(manifest, {source.imatrix_files, source.pre, alignment}));
  }
  SHARD_TRY(WritePlan made, Remake(wanted, *out.model, steps));
  for (OutputFile& file : made.files) {
    if (OverlayVersionOf(file.role, file.path) == kVersion) out.file = std::move(file);
  }
  return out;
}

}  // namespace moepack::manifest
