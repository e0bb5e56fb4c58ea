// verify --against the source verifies a requantized distribution: both steps are recorded and
// recomputed.
#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "manifest/document/parents.h"
#include "manifest/verify/requantize.h"
#include "tests/libshard/recipe/imatrix_file.h"
#include "tests/manifest/document/tiny_distribution.h"
#include "tests/manifest/verify/forger.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;

WriteOptions Recipe(const std::string& recipe) {
  WriteOptions options;
  options.gguf.emplace().recipe.recipe = recipe;
  options.gguf->recipe.allow_requantize = true;
  return options;
}

class VerifyRequantized : public testing::Test {
 protected:
  VerifyRequantized() {
    EXPECT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "source", {.layers = 1}));
  }

  void Build(const std::string& out, const WriteOptions& options) {
    const MoeModel model = tiny::Model(dir_ / "source");
    PlanOptions plan;
    plan.groups = 2;
    fixtures::WriteFile(dir_ / "overlay.json", R"({"version": "one", "layers": {"*": "1"}})");
    plan.overlay_file = (dir_ / "overlay.json").string();
    const auto written =
        WriteDistribution(model, tiny::Plan(model, plan), (dir_ / out).string(), options);
    EXPECT_TRUE(written) << written.error().message;
  }

  void Requantize(const std::string& from, const std::string& to, const WriteOptions& options) {
    const auto written =
        RequantizeDistribution((dir_ / from).string(), (dir_ / to).string(), options);
    EXPECT_TRUE(written) << written.error().message;
  }

  Result<VerifyReport> Prove(const std::string& name,
                             const std::vector<std::string>& imatrices = {}) const {
    VerifyOptions options;
    options.against = (dir_ / "source").string();
    options.imatrix_files = imatrices;
    return VerifyDistribution((dir_ / name).string(), options);
  }

  void ExpectProven(const std::string& name, const std::vector<std::string>& imatrices = {}) const {
    const auto report = Prove(name, imatrices);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->passed()) << TextOf(*report);
    EXPECT_GT(report->source_bytes, 0u);
  }

  // Data for all expert matrices of `distribution`; other numbers for another `seed`.
  std::string WriteImatrix(const std::string& name, const std::string& distribution,
                           size_t seed) const {
    const auto manifest = ReadManifest((dir_ / distribution).string());
    std::vector<fixtures::ImatrixPart> parts;
    for (const TensorRecord& tensor : manifest->bundles.back().tensors) {
      if (tensor.shape.size() != 3) continue;
      const uint32_t experts = manifest->plan.layers.begin()->second;
      fixtures::ImatrixPart part{tensor.name, {}, std::vector<float>(experts, 8)};
      for (size_t i = 0; i < experts * tensor.shape.back(); ++i) {
        part.sums.push_back(static_cast<float>((i * 7919 + seed) % 101 + 1));
      }
      parts.push_back(std::move(part));
    }
    EXPECT_FALSE(parts.empty());
    fixtures::WriteFile(dir_ / name, fixtures::GgufBytes(fixtures::ImatrixFile(parts)));
    return (dir_ / name).string();
  }

  fixtures::TempDir dir_;
};

TEST_F(VerifyRequantized, VerifiesAgainstItsSourceInTwoSteps) {
  Build("q8", Recipe("Q8_0"));
  Requantize("q8", "q4", Recipe("Q4_0"));
  ExpectProven("q4");
  const auto manifest = ReadManifest((dir_ / "q4").string());
  ASSERT_TRUE(manifest);
  EXPECT_EQ(manifest->recipe.name, "Q4_0 of Q8_0");
  const auto parents = ParentsOf(*manifest);
  ASSERT_TRUE(parents) << parents.error().message;
  ASSERT_EQ(parents->size(), 1u);
  EXPECT_EQ((*parents)[0].recipe.name, "Q8_0");
  EXPECT_EQ((*parents)[0].manifest_sha256,
            Sha256Hex(fixtures::ReadFile(dir_ / "q8/distribution.json")));
}

TEST_F(VerifyRequantized, VerifiesInThreeStepsAndFromExactBundles) {
  Build("exact", Recipe("exact"));
  Requantize("exact", "q8", Recipe("Q8_0"));
  ExpectProven("q8");
  WriteOptions mixed = Recipe("Q5_0");
  mixed.gguf->recipe.experts_type = "q4_1";
  mixed.gguf->recipe.overlay_type = "q8_0";
  Requantize("q8", "q5", mixed);
  ExpectProven("q5");
  Requantize("q5", "q4", Recipe("Q4_0"));
  ExpectProven("q4");
  EXPECT_EQ(ParentsOf(*ReadManifest((dir_ / "q4").string()))->size(), 3u);
}

TEST_F(VerifyRequantized, NeedsTheImportanceMatrixOfEachStep) {
  Build("f16", Recipe("F16"));
  const std::string first = WriteImatrix("first.gguf", "f16", 1);
  const std::string second = WriteImatrix("second.gguf", "f16", 2);
  WriteOptions options = Recipe("Q5_0");
  options.gguf->imatrix_file = first;
  Build("q5", options);
  ExpectProven("q5", {first});
  options = Recipe("Q4_0");
  options.gguf->imatrix_file = second;
  Requantize("q5", "q4", options);
  ExpectProven("q4", {second, first});
  fs::rename(second, dir_ / "renamed.gguf");
  ExpectProven("q4", {first, (dir_ / "renamed.gguf").string()});
  const auto lacking = Prove("q4", {first});
  ASSERT_FALSE(lacking);
  EXPECT_EQ(lacking.error().code, Code::kMismatch);
  EXPECT_NE(lacking.error().message.find("second.gguf"), std::string::npos);
  const auto none = Prove("q4");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::kInvalidArgument) << none.error().message;
}

TEST_F(VerifyRequantized, FindsAFalseStepWithCorrectDigests) {
  Build("q8", Recipe("Q8_0"));
  Requantize("q8", "q4", Recipe("Q4_0"));
  const auto rules_of = [&](const std::function<void(forger::Forgery&)>& change) {
    forger::Forgery forged = forger::Forgery::Of(dir_ / "q4");
    change(forged);
    fs::remove_all(dir_ / "forged");
    forged.WriteTo(dir_ / "forged");
    const auto report = Prove("forged");
    EXPECT_TRUE(report) << report.error().message;
    return report ? BrokenRules(*report) : Rules();
  };
  EXPECT_EQ(rules_of([](auto&) {}), Rules());
  EXPECT_TRUE(rules_of([](auto& forged) {
                forged.files.at("groups/000/experts.gguf").back() ^= 1;
              }).contains("source-bytes"));
  EXPECT_TRUE(rules_of([](auto& forged) {
                forged.manifest["tool"]["recipe"] = "Q4_0 of Q5_0";
                forged.manifest["tool"]["parents"][0]["recipe"] = "Q5_0";
              }).contains("source-bytes"));
  EXPECT_TRUE(rules_of([](auto& forged) {
                forged.manifest["tool"]["recipe"] = "Q4_0";
                forged.manifest["tool"].erase("parents");
              }).contains("source-bytes"));
  EXPECT_TRUE(rules_of([](auto& forged) {
                forged.manifest["tool"].erase("parents");
              }).contains("source-model"));
  EXPECT_TRUE(rules_of([](auto& forged) {
                forged.manifest["tool"]["parents"][0]["recipe"] = 5;
              }).contains("manifest-schema"));
}

}  // namespace
}  // namespace moepack::manifest
