// Refitted distributions in the runtime: every group has its own experts and router rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime-shim/masking/check.h"
#include "runtime-shim/session/session.h"
#include "tests/manifest/document/refitted_tiny.h"

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

const std::vector<uint32_t> kTokens = {5, 17, 301, 42, 7, 99, 250, 3};

// Written once: tiny-moe split in three with an overlay; not refitted, with a refit that changed
// nothing, and with one that changed everything, as safetensors and as GGUF.
class RefittedRuntime : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<fixtures::TempDir>();
    ASSERT_TRUE(tiny::Write(*directory_ / "plain"));
    const std::pair<const char*, const char*> written[] = {
        {"same", ""}, {"same-gguf", "BF16"}, {"changed", ""}, {"changed-gguf", "BF16"}};
    for (const auto& [name, recipe] : written) {
      const bool same = std::string_view(name).starts_with("same");
      const auto report =
          tiny::WriteRefitted(*directory_ / name, same ? StoreOptions{} : tiny::Changed(), recipe);
      ASSERT_TRUE(report) << report.error().message;
    }
  }
  static void TearDownTestSuite() { directory_.reset(); }
  static std::string Dir(const std::string& name) { return (*directory_ / name).string(); }

  struct Loaded {
    std::unique_ptr<Executor> executor;
    std::shared_ptr<const Weights> weights;
    std::unique_ptr<Model> model;
    std::unique_ptr<Session> Open(uint32_t group) const {
      SessionOptions options;
      options.context = 32;
      options.group = group;
      auto session = Session::Open(*model, EligibleExperts(*weights, group, true), options);
      if (!session) throw std::runtime_error(session.error().message);
      return *std::move(session);
    }
  };
  static Loaded Load(const std::string& name, const std::vector<uint32_t>& groups = {}) {
    ExecutorOptions device;
    device.threads = 1;
    Loaded loaded;
    loaded.executor = *OpenExecutor("cpu", device);
    LoadOptions options;
    options.groups = groups;
    auto weights = LoadWeights(Dir(name), options);
    if (!weights) throw std::runtime_error(weights.error().message);
    loaded.weights = *std::move(weights);
    auto model = Model::Load(loaded.weights, *loaded.executor);
    if (!model) throw std::runtime_error(model.error().message);
    loaded.model = *std::move(model);
    return loaded;
  }
  static std::vector<float> Logits(const Loaded& loaded, uint32_t group) {
    return *loaded.Open(group)->Feed(kTokens, LogitsOf::kAll);
  }

  static std::unique_ptr<fixtures::TempDir> directory_;
};
std::unique_ptr<fixtures::TempDir> RefittedRuntime::directory_;

TEST_F(RefittedRuntime, GivesTheLogitsOfTheMaskedModelIfTheRefitChangedNothing) {
  const Loaded plain = Load("plain"), same = Load("same"), gguf = Load("same-gguf");
  for (const uint32_t group : {0u, 1u, 2u}) {
    const std::vector<float> expected = Logits(plain, group);
    EXPECT_EQ(Logits(same, group), expected) << group;
    EXPECT_EQ(Logits(gguf, group), expected) << group;
  }
}

TEST_F(RefittedRuntime, RunsEachGroupWithItsOwnExperts) {
  const Loaded plain = Load("plain"), all = Load("changed"), gguf = Load("changed-gguf");
  for (const uint32_t group : {0u, 1u, 2u}) {
    const std::vector<float> together = Logits(all, group);
    EXPECT_EQ(Logits(Load("changed", {group}), group), together) << group;
    EXPECT_NE(Logits(plain, group), together) << group;
    EXPECT_EQ(Logits(Load("changed-gguf", {group}), group), Logits(gguf, group)) << group;
  }
}

TEST_F(RefittedRuntime, KeepsGroupsSeparateInOnePass) {
  const Loaded all = Load("changed");
  std::vector<std::unique_ptr<Session>> sessions;
  std::vector<Part> parts;
  for (const uint32_t group : {0u, 1u, 2u}) {
    sessions.push_back(all.Open(group));
    parts.push_back({sessions.back().get(), kTokens});
  }
  std::vector<std::vector<float>> seen(parts.size());
  const Status fed =
      sessions[0]->FeedTogether(parts, LogitsOf::kAll, [&](const LogitsSlice& slice) {
        for (size_t i = 0; i < seen.size(); ++i)
          seen[i].insert(seen[i].end(), slice.parts[i].begin(), slice.parts[i].end());
        return Ok();
      });
  ASSERT_TRUE(fed) << fed.error().message;
  for (const uint32_t group : {0u, 1u, 2u}) EXPECT_EQ(seen[group], Logits(all, group)) << group;
}

TEST_F(RefittedRuntime, HasNoWholeModel) {
  const Loaded all = Load("changed");
  const auto session =
      Session::Open(*all.model, EligibleExperts(*all.weights, std::nullopt, true), {});
  ASSERT_FALSE(session);
  EXPECT_EQ(session.error().code, Code::kInvalidArgument);
  EXPECT_THAT(session.error().message,
              HasSubstr("group: expected one that is loaded, as a refit gave every group"));
}

TEST_F(RefittedRuntime, ComparesNodesWithTheirAssembledForms) {
  for (const char* name : {"changed", "changed-gguf"}) {
    CheckOptions options;
    options.device.threads = 1;
    const auto report = CheckDistribution(Dir(name), options);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->of_refit);
    ASSERT_EQ(report->nodes.size(), 3u);
    for (const CheckedNode& node : report->nodes) {
      EXPECT_TRUE(node.passed()) << name << " " << node.group;
      EXPECT_TRUE(node.findings.worst.same_bits);
    }
    ASSERT_EQ(report->notes.size(), 1u);
    EXPECT_THAT(report->notes[0], HasSubstr("the groups were refitted"));
  }
}

TEST_F(RefittedRuntime, RefusesChecksThatLeaveNothingToCompare) {
  CheckOptions options;
  options.against = tiny::kSource.string();
  auto report = CheckDistribution(Dir("changed"), options);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("--against leaves nothing to compare"));
  options = {};
  options.assembled = false;
  report = CheckDistribution(Dir("changed"), options);
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("--no-assembled leaves nothing to compare"));
}

TEST_F(RefittedRuntime, ReportsTheRefitsVersion) {
  const auto manifest = manifest::ReadManifest(Dir("changed"));
  EXPECT_EQ(Load("changed").weights->refit_version, manifest->versions.refit);
  EXPECT_EQ(Load("plain").weights->refit_version, "");
}

}  // namespace
}  // namespace moepack::runtime
