// ParseManifest: a parsed manifest can be written and read back, and names no file outside.
#include "manifest/document/manifest.h"

#include "libshard/base/files/inside_path.h"
#include "tests/fuzz/target.h"
#include "tests/manifest/document/sample.h"

namespace manifest_target {

constexpr const char* kWhere = "damaged/distribution.json";

std::vector<std::string> Seeds() {
  sample::Distribution whole = sample::Make();
  moepack::Plan plain = sample::MakePlan();
  plain.overlays.clear();
  for (moepack::GroupPlan& group : plain.groups) group.fill = {};
  sample::Distribution part = sample::Make(plain);
  part.Remove("groups/001/experts.safetensors");
  part.manifest.complete = false;
  part.manifest.created = 1'700'000'000;
  std::string unknown = WriteManifest(whole.manifest);
  unknown.insert(1, R"("quality": {"x": [1, {"y": 2}]}, "later": {"a": "b"},)");
  return {WriteManifest(whole.manifest), WriteManifest(part.manifest), unknown};
}

std::string PathsProblem(const moepack::manifest::Manifest& read) {
  for (const auto& bundle : read.bundles) {
    if (!moepack::IsSafeRelativePath(bundle.file))
      return moepack::Cat("a path outside: ", bundle.file);
  }
  for (const auto& asset : read.assets) {
    if (!moepack::IsSafeRelativePath(asset.file))
      return moepack::Cat("a path outside: ", asset.file);
  }
  return "";
}

std::string Check(std::string_view input) {
  const auto read = moepack::manifest::ParseManifest(kWhere, input);
  if (!read) return fuzz::ErrorProblem(read.error(), kWhere);
  if (const std::string problem = PathsProblem(*read); !problem.empty()) return problem;
  const std::string text = WriteManifest(*read);
  const auto again = moepack::manifest::ParseManifest(kWhere, text);
  if (!again) return moepack::Cat("refused after writing: ", again.error().message);
  return WriteManifest(*again) == text ? "" : "another manifest after writing twice";
}

constexpr fuzz::Target kTarget{Check, Seeds, 2000, 500};

}  // namespace manifest_target

FUZZ_JSON_TARGET(FuzzManifest, manifest_target::kTarget)
