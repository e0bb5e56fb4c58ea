// A new overlay moves alone: whatever the bundles are, the files of trunk, routers and groups stay,
// and the new file is verified against the source.
#include "manifest/overlay/make_overlay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fixtures/generator.h"
#include "libshard/base/files/local_tree.h"
#include "manifest/node/assemble.h"
#include "manifest/verify/requantize.h"
#include "manifest/verify/verify.h"
#include "tests/manifest/document/tiny_distribution.h"
#include "tests/manifest/verify/verify_sample.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

WriteOptions Gguf(const std::string& recipe) {
  WriteOptions options;
  options.gguf.emplace().recipe.recipe = recipe;
  options.gguf->recipe.allow_requantize = true;
  return options;
}

class MakeOverlayTest : public testing::Test {
 protected:
  // A generated checkpoint in two groups, whose overlay `one` holds expert 1 of every layer.
  void Split(const std::string& layout, const WriteOptions& options = {},
             const std::string& partition = "contiguous") {
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, dir_ / "source", {.experts = 8}));
    WriteOverlay("one.json", "one", "1");
    PlanOptions plan;
    plan.groups = 2;
    plan.partition = partition;
    plan.overlay_file = (dir_ / "one.json").string();
    const MoeModel model = tiny::Model(dir_ / "source");
    const auto written = WriteDistribution(model, tiny::Plan(model, plan), Path("dist"), options);
    ASSERT_TRUE(written) << written.error().message;
  }
  void WriteOverlay(const std::string& name, const std::string& version, const std::string& ids) {
    fixtures::WriteFile(dir_ / name,
                        R"({"version": ")" + version + R"(", "layers": {"*": ")" + ids + R"("}})");
  }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }

  OverlayOptions Holding(const std::string& ids, const std::string& version = "next") {
    WriteOverlay("next.json", version, ids);
    OverlayOptions options;
    options.request.file = Path("next.json");
    return options;
  }
  Result<OverlayReport> Make(const OverlayOptions& options, const std::string& from = "dist",
                             const std::string& to = "out") {
    return MakeOverlay(Path(from), Path(to), options);
  }
  OverlayReport Made(const OverlayOptions& options, const std::string& from = "dist",
                     const std::string& to = "out") {
    auto report = Make(options, from, to);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *std::move(report) : OverlayReport();
  }
  Error Refusal(const OverlayOptions& options) {
    const auto before = tiny::Tree(dir_.path());
    const auto report = Make(options);
    EXPECT_FALSE(report);
    EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
    return report ? Error{Code::kIo, ""} : report.error();
  }
  void ExpectProven(const std::string& name) {
    VerifyOptions options;
    options.against = Path("source");
    const auto report = VerifyDistribution(Path(name), options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->passed()) << TextOf(*report);
  }
  // Files in both have the same bytes, except for the new overlay and the files that list it.
  void ExpectOnlyTheOverlayIsNew(const std::string& from, const std::string& to) {
    const auto before = tiny::Tree(dir_ / from), after = tiny::Tree(dir_ / to);
    for (const auto& [name, bytes] : after) {
      const bool small = name == kManifestFile || name == "README.md";
      const bool fresh = name.starts_with("overlays/next/");
      EXPECT_EQ(before.contains(name), !fresh) << name;
      if (!small && !fresh) {
        EXPECT_TRUE(before.at(name) == bytes) << name;
      }
    }
  }

  fixtures::TempDir dir_;
};

TEST_F(MakeOverlayTest, WritesOnlyTheOverlayAndVerifiesAllVersions) {
  for (const char* layout : {"qwen3-moe", "granite-moe", "gpt-oss"}) {
    SCOPED_TRACE(layout);
    Split(layout);
    const OverlayReport report = Made(Holding("0,2"));
    ExpectOnlyTheOverlayIsNew("dist", "out");
    ExpectProven("out");
    const Manifest after = *ReadManifest(Path("out"));
    ASSERT_EQ(after.plan.overlays.size(), 2u);
    EXPECT_EQ(after.plan.current_overlay()->version, "next");
    EXPECT_EQ(after.plan.current_overlay()->parent, "one");
    EXPECT_EQ(after.versions.shard, ReadManifest(Path("dist"))->versions.shard);
    EXPECT_EQ(report.source_experts, 0u);
    fs::remove_all(dir_ / "dist");
    fs::remove_all(dir_ / "source");
    fs::remove_all(dir_ / "out");
  }
}

TEST_F(MakeOverlayTest, GgufOverlaysEqualThoseOfABuild) {
  for (const char* recipe : {"Q8_0", "Q4_K_M"}) {
    Split("qwen3-moe", Gguf(recipe));
    Made(Holding("0,3"));
    ExpectOnlyTheOverlayIsNew("dist", "out");
    ExpectProven("out");
    WriteOverlay("one.json", "next", "0,3");
    PlanOptions plan;
    plan.groups = 2;
    plan.overlay_file = Path("one.json");
    const MoeModel model = tiny::Model(dir_ / "source");
    ASSERT_TRUE(WriteDistribution(model, tiny::Plan(model, plan), Path("built"), Gguf(recipe)));
    const auto made = tiny::Tree(dir_ / "out"), built = tiny::Tree(dir_ / "built");
    for (const auto& [name, bytes] : built) {
      if (name != kManifestFile && name != "README.md") {
        EXPECT_TRUE(made.at(name) == bytes) << name;
      }
    }
    for (const char* name : {"dist", "source", "out", "built"}) fs::remove_all(dir_ / name);
  }
}

TEST_F(MakeOverlayTest, NodesOfEveryVersionHaveEquallyManyExperts) {
  Split("qwen3-moe");
  Made(Holding("0,2,3"));
  for (const uint32_t group : {0u, 1u}) {
    AssembleOptions options;
    options.group = group;
    const auto current = AssembleNode(Path("out"), Path(Cat("new-", group)), options);
    options.overlay = "one";
    const auto older = AssembleNode(Path("out"), Path(Cat("old-", group)), options);
    options.overlay = "";
    options.with_overlay = false;
    const auto alone = AssembleNode(Path("out"), Path(Cat("alone-", group)), options);
    for (const auto* report : {&current, &older, &alone}) {
      ASSERT_TRUE(*report) << report->error().message;
    }
    AssembleOptions before;
    before.group = group;
    ASSERT_TRUE(AssembleNode(Path("dist"), Path(Cat("was-", group)), before));
    auto was = tiny::Tree(dir_ / Cat("was-", group)), now = tiny::Tree(dir_ / Cat("old-", group));
    was.erase("moepack_node.json");  // it names the digest of distribution.json
    now.erase("moepack_node.json");
    EXPECT_TRUE(was == now) << "the node of an older version is unchanged";
    EXPECT_GT(current->expert_count, older->expert_count);
    EXPECT_GT(older->expert_count, alone->expert_count);
  }
  AssembleOptions unknown;
  unknown.overlay = "v9";
  EXPECT_THAT(AssembleNode(Path("out"), Path("none"), unknown).error().message,
              HasSubstr("overlay \"v9\": expected in the manifest, found only \"one\", \"next\""));
}

TEST_F(MakeOverlayTest, TakesExpertsThatNoFileHoldsFromTheSource) {
  fixtures::WriteFile(dir_ / "groups.json", R"({"groups": [{"*": "0-2"}, {"*": "3-5"}]})");
  const std::string partition = "explicit:" + Path("groups.json");
  for (const bool gguf : {false, true}) {
    Split("qwen3-moe", gguf ? Gguf("Q8_0") : WriteOptions(), partition);
    OverlayOptions options = Holding("0,7");
    const Error refused = Refusal(options);
    EXPECT_EQ(refused.code, Code::kInvalidArgument);
    EXPECT_THAT(refused.message,
                HasSubstr("layer 0: experts 7: expected in a file of the distribution, found in "
                          "none"));
    EXPECT_THAT(refused.hint, HasSubstr("--source"));
    options.source.source = *LocalSource(dir_ / "source");
    options.dry_run = true;
    const OverlayReport planned = Made(options);
    EXPECT_FALSE(fs::exists(dir_ / "out"));
    options.dry_run = false;
    const OverlayReport report = Made(options);
    EXPECT_EQ(report.source_experts, ReadManifest(Path("dist"))->plan.layers.size());
    EXPECT_EQ(planned.files[0].bytes, report.files[0].bytes);
    ExpectProven("out");
    EXPECT_FALSE(fs::exists(dir_ / "out.experts.partial"));
    for (const char* name : {"dist", "source", "out"}) fs::remove_all(dir_ / name);
  }
}

TEST_F(MakeOverlayTest, OverlaysWithTheirOwnTypesAreNotMadeFromGroups) {
  WriteOptions options = Gguf("Q4_0");
  options.gguf->recipe.overlay_type = "q8_0";
  Split("qwen3-moe", options);
  EXPECT_THAT(
      Refusal(Holding("1,2")).message,
      HasSubstr("layer 0: experts 2,5: expected in a file of the distribution in the types of "
                "its overlays, found in none"));
  OverlayOptions with_source = Holding("1,2");
  with_source.source.source = *LocalSource(dir_ / "source");
  Made(with_source);
  ExpectProven("out");
  const Manifest after = *ReadManifest(Path("out"));
  for (const BundleRecord& bundle : after.bundles) {
    if (bundle.role != Role::kOverlay) continue;
    for (const TensorRecord& tensor : bundle.tensors) {
      if (tensor.shape.size() == 3) {
        EXPECT_EQ(tensor.dtype, "q8_0") << bundle.file;
      }
    }
  }
}

TEST_F(MakeOverlayTest, RequantizedDistributionsNeedNoSource) {
  Split("qwen3-moe", Gguf("Q8_0"));
  ASSERT_TRUE(RequantizeDistribution(Path("dist"), Path("q4"), Gguf("Q4_0")));
  Made(Holding("0,2"), "q4");
  ExpectOnlyTheOverlayIsNew("q4", "out");
  ExpectProven("out");
}

TEST_F(MakeOverlayTest, RefusesASourceThatIsAnotherModel) {
  fixtures::WriteFile(dir_ / "groups.json", R"({"groups": [{"*": "0-2"}, {"*": "3-5"}]})");
  Split("qwen3-moe", {}, "explicit:" + Path("groups.json"));
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "other", {.seed = 99, .experts = 8}));
  OverlayOptions options = Holding("0,7");
  options.source.source = *LocalSource(dir_ / "other");
  const Error refused = Refusal(options);
  EXPECT_EQ(refused.code, Code::kMismatch);
  EXPECT_THAT(refused.message, HasSubstr("other: model version: expected "));
}

TEST_F(MakeOverlayTest, KeepsAsManyOlderVersionsAsRequested) {
  Split("qwen3-moe");
  Made(Holding("0", "two"), "dist", "two");
  OverlayOptions options = Holding("2", "three");
  options.keep = 1;
  const OverlayReport report = Made(options, "two", "three");
  EXPECT_THAT(report.dropped, testing::ElementsAre("one"));
  const Manifest manifest = *ReadManifest(Path("three"));
  ASSERT_EQ(manifest.plan.overlays.size(), 2u);
  EXPECT_EQ(manifest.plan.overlays[0].version, "two");
  EXPECT_EQ(manifest.plan.overlays[1].version, "three");
  EXPECT_FALSE(fs::exists(dir_ / "three/overlays/one"));
  ExpectProven("three");
  options.keep = 0;
  options.request.version = "four";
  Made(options, "three", "four");
  EXPECT_EQ(ReadManifest(Path("four"))->plan.overlays.size(), 1u);
  ExpectProven("four");
}

TEST_F(MakeOverlayTest, RefusesBytesFromADamagedFile) {
  Split("qwen3-moe");
  for (const char* file : {"groups/000/experts.safetensors", "groups/001/experts.safetensors"}) {
    std::string bytes = fixtures::ReadFile(dir_ / "dist" / file);
    for (size_t at = bytes.size() / 2; at < bytes.size(); ++at) bytes[at] ^= 1;
    fixtures::WriteFile(dir_ / "dist" / file, bytes);
  }
  const Error refused = Refusal(Holding("0,2,4,6"));
  EXPECT_EQ(refused.code, Code::kMismatch);
  EXPECT_THAT(refused.message, HasSubstr("xxh3-128: expected "));
}

TEST_F(MakeOverlayTest, RefusesAMissingFileAndAnOutputInside) {
  Split("qwen3-moe");
  OverlayOptions options = Holding("0");
  EXPECT_EQ(MakeOverlay(Path("dist"), Path("dist/next"), options).error().code,
            Code::kInvalidArgument);
  fs::remove(dir_ / "dist/trunk/trunk.safetensors");
  const Error refused = Refusal(options);
  EXPECT_EQ(refused.code, Code::kNotFound);
  EXPECT_THAT(refused.message, HasSubstr("trunk.safetensors"));
}

TEST_F(MakeOverlayTest, DropsFiguresMeasuredWithThePreviousOverlay) {
  Split("qwen3-moe");
  std::string text = fixtures::ReadFile(dir_ / "dist/distribution.json");
  text.replace(text.find("  \"complete\""), 0, "  \"quality\": {\"kld\": 2.5},\n");
  fixtures::WriteFile(dir_ / "dist/distribution.json", text);
  Made(Holding("0"));
  EXPECT_THAT(fixtures::ReadFile(dir_ / "out/distribution.json"),
              testing::Not(HasSubstr("\"quality\"")));
}

}  // namespace
}  // namespace moepack::manifest
