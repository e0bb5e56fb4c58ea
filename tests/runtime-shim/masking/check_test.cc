#include "runtime-shim/masking/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>

#include "manifest/document/pull_lock.h"
#include "manifest/node/assemble.h"
#include "tests/manifest/find_bundle.h"
#include "tests/runtime-shim/load/sample.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;
using Kind = CheckedNode::Kind;

// Written once: both forms of tiny-moe split in three, with an overlay.
class CheckOfTiny : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<fixtures::TempDir>();
    ASSERT_TRUE(tiny::Write(*directory_ / "plain"));
    WriteSplit(tiny::kSource, *directory_ / "gguf", Gguf("BF16"));
    WriteSplit(tiny::kSource, *directory_ / "q4", Gguf("Q4_K_M"));
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static SplitOptions Gguf(const std::string& recipe) {
    SplitOptions split;
    split.recipe = recipe;
    split.groups = 3;
    split.overlay = R"({"version": "one", "layers": {"0": "3,11", "1": "0,7", "2": "5,14"}})";
    return split;
  }

  static std::string Dir(const std::string& name) { return (*directory_ / name).string(); }

  // One thread: on a busy machine, the threads of small operations wait for each other.
  static CheckReport Check(const std::string& name, CheckOptions options = {}) {
    options.device.threads = 1;
    auto report = CheckDistribution(Dir(name), options);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : CheckReport();
  }

  static Error Refusal(const std::string& path, const CheckOptions& options = {}) {
    auto report = CheckDistribution(path, options);
    EXPECT_FALSE(report);
    return report ? Error{Code::kIo, "checked"} : report.error();
  }

  // A copy of the plain distribution with another first value in one expert of group 1.
  static std::string Tampered(const std::string& name, const std::string& tensor) {
    fs::copy(Dir("plain"), Dir(name), fs::copy_options::recursive);
    const auto manifest = manifest::ReadManifest(Dir(name));
    for (const manifest::TensorRecord& record :
         FindBundle(*manifest, "groups/001/experts.safetensors")->tensors) {
      if (record.name != tensor) continue;
      std::fstream file(Dir(name) + "/groups/001/experts.safetensors",
                        std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(static_cast<std::streamoff>(record.offset));
      file.write("\x40\x42", 2);  // BF16 48
    }
    return Dir(name);
  }

  static inline std::unique_ptr<fixtures::TempDir> directory_;
};

// Groups 0 to 2, each with and without the overlay, and assembled.
void ExpectAllRan(const CheckReport& report) {
  ASSERT_EQ(report.nodes.size(), 9u);
  for (const CheckedNode& node : report.nodes) {
    EXPECT_EQ(node.skipped, "");
    EXPECT_TRUE(node.passed());
    EXPECT_TRUE(node.findings.worst.same_bits)
        << node.group << " " << node.overlay << " " << static_cast<int>(node.kind) << " "
        << node.findings.worst.relative;
    EXPECT_EQ(node.findings.positions, 32u);
    EXPECT_GT(node.used, node.eligible * 3 / 4);
    EXPECT_LE(node.used, node.eligible);
  }
  EXPECT_EQ(report.failures(), 0u);
  EXPECT_EQ(report.tolerance, 0);
}

TEST_F(CheckOfTiny, SafetensorsBundlesMatchTheMaskedModelBitForBit) {
  ExpectAllRan(Check("plain"));
}

TEST_F(CheckOfTiny, GgufBundlesMatchTheMaskedModelBitForBit) { ExpectAllRan(Check("gguf")); }

TEST_F(CheckOfTiny, QuantizedBundlesMatchTheMaskedModelBitForBit) { ExpectAllRan(Check("q4")); }

TEST_F(CheckOfTiny, ComparesWithTheGivenSource) {
  CheckOptions options;
  options.against = tiny::kSource.string();
  ExpectAllRan(Check("plain", options));
  ExpectAllRan(Check("gguf", options));
}

TEST_F(CheckOfTiny, ReportsEachNodeWhenItIsDone) {
  CheckOptions options;
  options.group = 2;
  options.assembled = false;
  std::vector<uint32_t> seen;
  options.checked = [&](const CheckedNode& node) { seen.push_back(node.group); };
  EXPECT_EQ(Check("plain", options).nodes.size(), 2u);
  EXPECT_EQ(seen, (std::vector<uint32_t>{2, 2}));
}

TEST_F(CheckOfTiny, RunsNodesWithoutTheOverlayOnRequest) {
  CheckOptions options;
  options.load.overlay = false;
  const CheckReport report = Check("plain", options);
  ASSERT_EQ(report.nodes.size(), 3u);
  for (const CheckedNode& node : report.nodes) EXPECT_FALSE(node.overlay);
}

TEST_F(CheckOfTiny, NamesPositionLayerAndExpertOfAFailingGroup) {
  CheckOptions options;
  options.against = tiny::kSource.string();
  options.load.verify = false;
  options.assembled = false;
  auto report =
      CheckDistribution(Tampered("bent", "model.layers.1.mlp.experts.8.down_proj.weight"), options);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->failures(), 2u);
  for (const CheckedNode& node : report->nodes) {
    EXPECT_EQ(node.failed(), node.group == 1);
    if (!node.failed()) continue;
    ASSERT_TRUE(node.where);
    EXPECT_EQ(node.where->position, *node.findings.failure);
    EXPECT_EQ(node.where->layer, 1u);
    EXPECT_EQ(node.where->what, "expert 8 outputs other values");
  }
}

TEST_F(CheckOfTiny, FindsATamperedPartByItsDigestFirst) {
  const Error error =
      Refusal(Tampered("tampered", "model.layers.1.mlp.experts.8.down_proj.weight"));
  EXPECT_EQ(error.code, Code::kMismatch);
  EXPECT_THAT(error.message, HasSubstr("groups/001/experts.safetensors"));
}

TEST_F(CheckOfTiny, RefusesToCompareAQuantizedDistributionWithItsSource) {
  CheckOptions options;
  options.against = tiny::kSource.string();
  const Error error = Refusal(Dir("q4"), options);
  EXPECT_EQ(error.code, Code::kUnsupported);
  EXPECT_THAT(error.message, HasSubstr("as in the distribution, found bf16"));
  EXPECT_THAT(error.hint, HasSubstr("leave --against out"));
}

TEST_F(CheckOfTiny, RefusesOtherSourcesAndMissingGroups) {
  EXPECT_EQ(Refusal(tiny::kSource.string()).code, Code::kInvalidArgument);
  CheckOptions options;
  options.group = 3;
  EXPECT_THAT(Refusal(Dir("plain"), options).message, HasSubstr("expected 0 to 2, found 3"));
}

TEST_F(CheckOfTiny, ANodeIsNoDistribution) {
  ASSERT_TRUE(manifest::AssembleNode(Dir("gguf"), Dir("node"), manifest::AssembleOptions()));
  const Error error = Refusal(Dir("node"));
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("expected a distribution, found a node's directory"));
  EXPECT_THAT(Refusal(tiny::kSource.string()).message, HasSubstr("found a model without groups"));
}

TEST_F(CheckOfTiny, WithASourceItNeedsOnlyTheGroupThatIsChecked) {
  fs::copy(Dir("gguf"), Dir("pulled"), fs::copy_options::recursive);
  fs::remove_all(Dir("pulled") + "/groups/000");
  fs::remove_all(Dir("pulled") + "/groups/002");
  const manifest::PullLock lock{
      "oci://a.example/b:v1", "sha256:" + std::string(64, 'a'), {1}, "one"};
  fixtures::WriteFile(Dir("pulled") + "/pulled.json", manifest::WriteLock(lock));
  CheckOptions options;
  options.group = 1;
  options.against = tiny::kSource.string();
  const CheckReport report = Check("pulled", options);
  EXPECT_EQ(report.nodes.size(), 3u);
  for (const CheckedNode& node : report.nodes) EXPECT_TRUE(node.passed());
  options.against.clear();
  const Error error = Refusal(Dir("pulled"), options);
  EXPECT_EQ(error.code, Code::kNotFound);
  EXPECT_THAT(error.hint, HasSubstr("the masked model is made of all groups"));
  EXPECT_THAT(error.hint, HasSubstr("--against SRC"));
}

TEST_F(CheckOfTiny, RunsTheGivenTokens) {
  CheckOptions options;
  options.tokens = {5, 6, 7};
  options.group = 0;
  const CheckReport report = Check("plain", options);
  EXPECT_EQ(report.tokens, options.tokens);
  for (const CheckedNode& node : report.nodes) EXPECT_EQ(node.findings.positions, 3u);
  options.tokens = {5000};
  const Error error = Refusal(Dir("plain"), options);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("found 5000"));
}

TEST_F(CheckOfTiny, SkipsAGroupTooSmallToRunWithoutTheOverlay) {
  SplitOptions split = Gguf("BF16");
  split.groups = 16;
  split.overlay = R"({"version": "one", "layers": {"*": "1,2"}})";
  split.uniform = false;
  WriteSplit(tiny::kSource, Dir("narrow"), split);
  CheckOptions options;
  options.group = 0;
  const CheckReport report = Check("narrow", options);
  ASSERT_EQ(report.nodes.size(), 3u);
  EXPECT_TRUE(report.nodes[0].passed());
  EXPECT_EQ(report.nodes[1].skipped, "layer 0 has 1 expert, a token needs 2");
  EXPECT_FALSE(report.nodes[1].passed());
  EXPECT_EQ(report.failures(), 0u);
}

// Routers that first choose one of two groups of experts.
class CheckOfRoutingGroups : public testing::Test {
 protected:
  CheckReport Check(uint32_t experts, const std::string& recipe) {
    EXPECT_TRUE(fixtures::MakeCheckpoint("bailing-moe-v3", dir_ / "model", {.experts = experts}));
    WriteSplit(dir_ / "model", dir_ / "split", {.recipe = recipe, .overlay = "", .groups = 3});
    CheckOptions options;
    options.device.threads = 1;
    auto report = CheckDistribution((dir_ / "split").string(), options);
    EXPECT_TRUE(report) << report.error().message;
    fs::remove_all(dir_ / "model");
    fs::remove_all(dir_ / "split");
    return report ? *report : CheckReport();
  }
  fixtures::TempDir dir_;
};

TEST_F(CheckOfRoutingGroups, ComparesNodesWithoutThemWithAModelWithoutThem) {
  for (const char* recipe : {"", "exact"}) {
    SCOPED_TRACE(recipe);
    const CheckReport report = Check(8, recipe);
    ASSERT_EQ(report.nodes.size(), 6u);
    for (const CheckedNode& node : report.nodes) {
      EXPECT_TRUE(node.passed()) << node.group << " " << static_cast<int>(node.kind);
      EXPECT_TRUE(node.findings.worst.same_bits);
    }
    EXPECT_EQ(std::count_if(report.notes.begin(), report.notes.end(),
                            [](const std::string& note) {
                              return note.find("fill the routing groups") != std::string::npos;
                            }),
              1);
  }
}

TEST_F(CheckOfRoutingGroups, SkipsNodesWhoseGroupsHoldTooFewExpertsForSomeTokens) {
  const CheckReport report = Check(6, "");
  ASSERT_EQ(report.nodes.size(), 6u);
  const CheckedNode& middle = report.nodes[2];
  EXPECT_EQ(middle.group, 1u);
  EXPECT_EQ(middle.skipped,
            "layer 1: the 1 routing group that a token uses may hold 1 expert of the node, a token "
            "needs 2");
  EXPECT_EQ(report.failures(), 0u);
  EXPECT_TRUE(report.nodes[0].passed());
  EXPECT_TRUE(report.nodes[3].passed()) << "assembled, it has no routing groups";
}

TEST(CheckTokens, AreTheSameInEveryRunAndWithinTheVocabulary) {
  EXPECT_EQ(CheckTokens(1000), CheckTokens(1000));
  EXPECT_EQ(CheckTokens(1000).size(), 32u);
  for (const uint32_t token : CheckTokens(7)) EXPECT_LT(token, 7u);
  const std::vector<uint32_t> tokens = CheckTokens(100000);
  EXPECT_EQ(std::set<uint32_t>(tokens.begin(), tokens.end()).size(), 32u);
}

TEST(CheckTolerance, IsZeroOnlyOnTheCpu) {
  EXPECT_EQ(DefaultTolerance("cpu"), 0);
  EXPECT_EQ(DefaultTolerance("vulkan"), 1e-4);
}

}  // namespace
}  // namespace moepack::runtime
