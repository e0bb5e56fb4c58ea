// Uses of a distribution.json that contradicts the files: verify, diff and assemble finish and
// report what is wrong, whatever the document claims.
#include <filesystem>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "manifest/document/diff.h"
#include "manifest/node/assemble.h"
#include "manifest/verify/verify.h"
#include "manifest/write/bundle.h"
#include "tests/fuzz/target.h"

namespace manifest_use_target {

namespace fs = std::filesystem;

// A directory of bundles, and the manifest that belongs to them.
struct Distribution {
  explicit Distribution(void (*make)(const fixtures::TempDir&)) {
    make(dir);
    manifest = fixtures::ReadFile(dir / "dist/distribution.json");
  }
  std::string path() const { return (dir / "dist").string(); }

  fixtures::TempDir dir;
  std::string manifest;
};

const Distribution& OfGguf() {
  static const Distribution made([](const fixtures::TempDir& dir) {
    fs::copy(MOEPACK_SOURCE_DIR "/fixtures/distribution-0.1", dir / "dist",
             fs::copy_options::recursive);
  });
  return made;
}

const Distribution& OfSafetensors() {
  static const Distribution made([](const fixtures::TempDir& dir) {
    fixtures::Options sizes;
    sizes.layers = 1;
    fixtures::MakeCheckpoint("qwen3-moe", dir / "source", sizes);
    const auto model = moepack::MoeModel::Open((dir / "source").string());
    moepack::PlanOptions options;
    options.groups = 2;
    const auto plan = moepack::MakePlan(*model, options);
    (void)moepack::manifest::WriteDistribution(*model, *plan, (dir / "dist").string(), {});
  });
  return made;
}

std::string FindingsProblem(const moepack::manifest::VerifyReport& report) {
  for (const moepack::manifest::Finding& finding : report.findings) {
    if (finding.rule.empty() || finding.message.empty()) return "a finding without words";
  }
  return "";
}

std::string VerifyProblem(const std::string& where) {
  moepack::manifest::VerifyOptions options;
  options.digests = false;  // the files stay unchanged
  const auto report = moepack::manifest::VerifyDistribution(where, options);
  return report ? FindingsProblem(*report) : fuzz::ErrorProblem(report.error(), "distribution");
}

std::string AssembleProblem(const Distribution& in) {
  moepack::manifest::AssembleOptions options;
  options.dry_run = true;
  const auto report =
      moepack::manifest::AssembleNode(in.path(), (in.dir / "node").string(), options);
  return report ? "" : fuzz::ErrorProblem(report.error(), "dist");
}

std::string UseProblem(const Distribution& in, std::string_view input) {
  const fs::path file = fs::path(in.path()) / "distribution.json";
  if (!fuzz::WriteInput(file, input)) return "cannot write the input";
  if (const std::string problem = VerifyProblem(in.path()); !problem.empty()) return problem;
  if (const std::string problem = AssembleProblem(in); !problem.empty()) return problem;
  const auto changed = moepack::manifest::ReadManifest(in.path());
  if (!changed) return fuzz::ErrorProblem(changed.error(), "distribution.json");
  const auto good = moepack::manifest::ParseManifest("good", in.manifest);
  if (!good) return good.error().message;
  moepack::manifest::DiffManifests(*good, *changed);
  moepack::manifest::DiffManifests(*changed, *good);
  return moepack::manifest::DiffManifests(*changed, *changed).same() ? "" : "differs from itself";
}

std::string Check(std::string_view input) {
  const bool gguf = input.find("experts.gguf") != input.npos;
  return UseProblem(gguf ? OfGguf() : OfSafetensors(), input);
}

std::vector<std::string> Seeds() { return {OfGguf().manifest, OfSafetensors().manifest}; }

constexpr fuzz::Target kTarget{Check, Seeds, 300, 300};

}  // namespace manifest_use_target

FUZZ_JSON_TARGET(FuzzManifestUse, manifest_use_target::kTarget)
