#include "tools/options/plan_source.h"

#include "libshard/base/files/descriptor.h"
#include "libshard/base/text/address.h"
#include "libshard/base/text/text.h"
#include "manifest/document/manifest.h"

namespace moepack::cli {

Result<Plan> PlanOfDistribution(const std::string& directory, const std::string& source,
                                const MoeModel& model) {
  SHARD_TRY(manifest::Manifest read, manifest::ReadManifest(directory));
  // The revision is part of the version and only the manifest knows it.
  const std::string found = model.Version(read.model.revision);
  if (found == read.versions.model) return std::move(read.plan);
  return Error{Code::kMismatch,
               Cat(WithoutSecrets(source), ": model version: expected ", read.versions.model,
                   ", of which ", Shown(directory), " was made, found ", found)};
}

Result<Plan> ReadPlan(const std::string& path, const std::string& source, const MoeModel& model) {
  SHARD_TRY(const bool distribution, IsThere(fs::path(path) / manifest::kManifestFile));
  return distribution ? PlanOfDistribution(path, source, model) : ReadPlanFile(path, model);
}

}  // namespace moepack::cli
