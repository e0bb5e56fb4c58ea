// Reads the overlay file, in which a user lists the experts that every node holds.
#include <nlohmann/json.hpp>

#include "libshard/base/text.h"
#include "libshard/plan/plan_steps.h"

namespace moepack {
namespace {

// {"version": "generalists-1", "layers": {"*": "3,97", "7": "1-2"}}.
Status ApplyOverlay(const std::string& path, const Json& document, Plan& plan) {
  SHARD_CHECK(CheckMembers(path, document, {"version", "layers"}));
  const JsonFields fields(document, path);
  SHARD_TRY(plan.overlay_version, fields.String("version"));
  if (!IsLabel(plan.overlay_version)) {
    return fields.Wrong("version", "1 to 64 of [A-Za-z0-9._-], the first not a dot");
  }
  SHARD_TRY(const Json* layers, fields.Object("layers"));
  SHARD_TRY(plan.overlay, LayerExpertsFromJson(Cat(path, ": layers"), *layers, plan.layers));
  if (CountIds(plan.overlay) == 0) return fields.Wrong("layers", "at least one expert id");
  return Ok();
}

}  // namespace

Status ReadOverlayFile(const std::string& path, Plan& plan) {
  SHARD_TRY(const Json document, ReadJsonFile(path));
  return AsUserMistake(ApplyOverlay(path, document, plan));
}

}  // namespace moepack
