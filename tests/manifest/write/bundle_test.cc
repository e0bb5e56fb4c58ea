#include "manifest/write/bundle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "fixtures/temp_dir.h"
#include "manifest/verify/verify.h"
#include "tests/manifest/document/tiny_distribution.h"
#include "tests/manifest/find_bundle.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

constexpr const char* kTrunkFile = "trunk/trunk.safetensors";
constexpr const char* kOverlayBundle = "overlays/generalists-1/experts.safetensors";

class WriteDistributionTest : public testing::Test {
 protected:
  WriteReport Write(const std::string& name, const WriteOptions& options = tiny::Only()) {
    auto report = tiny::Write(dir_ / name, options);
    EXPECT_TRUE(report) << report.error().message;
    return report ? *report : WriteReport();
  }
  // The error of a run that must fail and leave `name` unchanged.
  Error Refusal(const std::string& name, const WriteOptions& options = tiny::Only()) {
    const auto before = tiny::Tree(dir_.path());
    const auto report = tiny::Write(dir_ / name, options);
    EXPECT_FALSE(report);
    EXPECT_EQ(tiny::Tree(dir_.path()), before);
    return report ? Error{Code::kIo, ""} : report.error();
  }
  void ExpectVerified(const std::string& name) {
    VerifyOptions options;
    options.against = tiny::kSource.string();
    const auto report = VerifyDistribution((dir_ / name).string(), options);
    ASSERT_TRUE(report) << report.error().message;
    for (const Finding& finding : report->findings) {
      EXPECT_NE(finding.severity, Severity::kError) << finding.rule << ": " << finding.message;
    }
  }

  fixtures::TempDir dir_;
};

TEST_F(WriteDistributionTest, WritesEveryPartWithAssetsReadmeAndManifest) {
  const WriteReport report = Write("out");
  EXPECT_THAT(
      tiny::Names(dir_ / "out"),
      ElementsAre("README.md", "assets/config.json", "assets/generation_config.json",
                  "assets/tokenizer.json", "assets/tokenizer_config.json", "distribution.json",
                  "groups/000/experts.safetensors", "groups/001/experts.safetensors",
                  "groups/002/experts.safetensors", kOverlayBundle, kTrunkFile));
  EXPECT_EQ(fixtures::ReadFile(dir_ / "out/distribution.json"), WriteManifest(report.manifest));
  EXPECT_EQ(fixtures::ReadFile(dir_ / "out/README.md"), DistributionReadme(report.manifest));
  EXPECT_TRUE(report.manifest.complete);
  EXPECT_EQ(report.manifest.model.id, "example/tiny");
  EXPECT_THAT(report.manifest.command, ElementsAre("shard-experts", "--groups", "3"));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
  ExpectVerified("out");
}

TEST_F(WriteDistributionTest, AssetsAreCopiesWithTheirDigests) {
  const WriteReport report = Write("out");
  ASSERT_EQ(report.manifest.assets.size(), 4u);
  for (const AssetRecord& asset : report.manifest.assets) {
    const std::string bytes =
        fixtures::ReadFile(tiny::kSource / fs::path(asset.file).filename().string());
    EXPECT_EQ(fixtures::ReadFile(dir_ / "out" / asset.file), bytes) << asset.file;
    EXPECT_EQ(asset.size, bytes.size());
    EXPECT_EQ(asset.sha256, Sha256Hex(bytes));
  }
}

TEST_F(WriteDistributionTest, ThePlanPredictsEveryFileAndItsSize) {
  const MoeModel model = tiny::Model();
  const auto plan = PlanDistribution(model, tiny::Plan(model), tiny::Only());
  ASSERT_TRUE(plan) << plan.error().message;
  Write("out");
  uint64_t total = 0;
  for (const OutputFile& file : plan->files) {
    EXPECT_EQ(fs::file_size(dir_ / "out" / file.path), file.size) << file.path;
    total += file.size;
  }
  for (const Asset& asset : plan->assets) {
    EXPECT_EQ(fs::file_size(dir_ / "out/assets" / asset.name), asset.size) << asset.name;
    total += asset.size;
  }
  EXPECT_EQ(plan->total_bytes(), total);
  EXPECT_EQ(plan->files.size() + plan->assets.size() + 2, tiny::Names(dir_ / "out").size());
}

TEST_F(WriteDistributionTest, ASelectionWritesItsPartsAndIsNotComplete) {
  const WriteReport report = Write("out", tiny::Only({"trunk", "group:1"}));
  EXPECT_THAT(tiny::Names(dir_ / "out"), ElementsAre("README.md", "distribution.json",
                                                     "groups/001/experts.safetensors", kTrunkFile));
  EXPECT_FALSE(report.manifest.complete);
  EXPECT_THAT(fixtures::ReadFile(dir_ / "out/README.md"), HasSubstr("parts are missing"));
}

TEST_F(WriteDistributionTest, TwoRunsGiveTheSameDirectory) {
  Write("a");
  Write("b");
  EXPECT_EQ(tiny::Tree(dir_ / "a"), tiny::Tree(dir_ / "b"));
}

TEST_F(WriteDistributionTest, PartsAddedInAnyOrderEqualOneFullRun) {
  Write("whole");
  const auto whole = tiny::Tree(dir_ / "whole");
  const std::vector<std::vector<std::vector<std::string>>> orders = {
      {{"trunk"}, {"group:0"}, {"group:1"}, {"group:2"}, {"overlay"}, {"assets"}},
      {{"assets"}, {"overlay"}, {"group:2"}, {"group:0"}, {"group:1"}, {"trunk"}},
      {{"group:1", "assets"}, {"trunk", "group:2"}, {"overlay", "group:0"}}};
  for (size_t i = 0; i < orders.size(); ++i) {
    const std::string name = "parts" + std::to_string(i);
    for (size_t step = 0; step < orders[i].size(); ++step) {
      const WriteReport report = Write(name, tiny::Only(orders[i][step]));
      EXPECT_EQ(report.manifest.complete, step + 1 == orders[i].size()) << name << " " << step;
    }
    EXPECT_EQ(tiny::Tree(dir_ / name), whole) << name;
    EXPECT_FALSE(fs::exists(dir_ / (name + ".partial")));
  }
}

TEST_F(WriteDistributionTest, PartsOfAnotherPlanAreRefused) {
  Write("out", tiny::Only({"trunk"}));
  const MoeModel model = tiny::Model();
  PlanOptions options = tiny::PlanOptions();
  options.groups = 2;
  const auto before = tiny::Tree(dir_.path());
  const auto report = WriteDistribution(model, tiny::Plan(model, options), (dir_ / "out").string(),
                                        tiny::Only({"group:0"}));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_THAT(report.error().message, HasSubstr("out: versions of the distribution there: "));
  EXPECT_THAT(report.error().hint, HasSubstr("same model and plan"));
  EXPECT_EQ(tiny::Tree(dir_.path()), before);
}

TEST_F(WriteDistributionTest, PartsOfAnotherOverlayAreRefused) {
  Write("out", tiny::Only({"trunk"}));
  const MoeModel model = tiny::Model();
  PlanOptions options = tiny::PlanOptions();
  options.overlay_file = "";
  const auto report = WriteDistribution(model, tiny::Plan(model, options), (dir_ / "out").string(),
                                        tiny::Only({"group:0"}));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
}

TEST_F(WriteDistributionTest, PartsOfAnotherRevisionOfTheModelAreRefused) {
  Write("out", tiny::Only({"trunk"}));
  WriteOptions options = tiny::Only({"group:0"});
  options.revision = "another";
  const Error error = Refusal("out", options);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("expected model "));
}

TEST_F(WriteDistributionTest, PartsAreNotAddedToSomethingElse) {
  fixtures::WriteFile(dir_ / "notes.txt", "mine");
  EXPECT_FALSE(tiny::Write(dir_ / "notes.txt", tiny::Only({"trunk"})));
  EXPECT_EQ(fixtures::ReadFile(dir_ / "notes.txt"), "mine");
  fs::create_directory(dir_ / "mine");
  fixtures::WriteFile(dir_ / "mine/notes.txt", "mine");
  EXPECT_EQ(Refusal("mine", tiny::Only({"trunk"})).code, Code::kNotFound);
}

TEST_F(WriteDistributionTest, AnEmptyDirectoryIsAFreeOutputAlsoOfParts) {
  for (const WriteOptions& options : {tiny::Only(), tiny::Only({"trunk"})}) {
    fs::remove_all(dir_ / "empty");
    fs::create_directory(dir_ / "empty");
    Write("empty", options);
    EXPECT_TRUE(fs::exists(dir_ / "empty" / kTrunkFile));
    EXPECT_FALSE(fs::exists(dir_ / "empty/.moepack.partial"));
  }
}

TEST_F(WriteDistributionTest, RefusesAnExistingPartUnlessForced) {
  Write("out");
  const auto whole = tiny::Tree(dir_ / "out");
  WriteOptions again = tiny::Only({"group:1"});
  const Error error = Refusal("out", again);
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("groups/001/experts.safetensors"));
  EXPECT_THAT(error.hint, HasSubstr("--force"));

  fixtures::WriteFile(dir_ / "out/groups/001/experts.safetensors", "damaged");
  again.force = true;
  Write("out", again);
  EXPECT_EQ(tiny::Tree(dir_ / "out"), whole);
}

// The part would exist twice, under two sets of names.
TEST_F(WriteDistributionTest, APartInFilesOfAnotherSizeIsStillThatPart) {
  Write("out");
  WriteOptions again = tiny::Only({"trunk"});
  again.slice.max_part_size = 1u << 20;
  EXPECT_THAT(Refusal("out", again).message,
              HasSubstr("already there, in trunk/trunk.safetensors"));

  again.force = true;
  const WriteReport report = Write("out", again);
  EXPECT_EQ(FindBundle(report.manifest, kTrunkFile), nullptr);
  EXPECT_FALSE(fs::exists(dir_ / "out" / kTrunkFile));
  EXPECT_TRUE(report.manifest.complete);
  ExpectVerified("out");
}

TEST_F(WriteDistributionTest, AnOutputThatExistsIsRefused) {
  fs::create_directory(dir_ / "out");
  fixtures::WriteFile(dir_ / "out/mine.txt", "mine");
  const Error error = Refusal("out");
  EXPECT_EQ(error.code, Code::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("out already exists"));
  EXPECT_THAT(error.hint, HasSubstr("--force"));
}

TEST_F(WriteDistributionTest, ADistributionIsReplacedWithForce) {
  Write("out", tiny::Only({"trunk"}));
  WriteOptions options = tiny::Only();
  options.force = true;
  Write("out", options);
  Write("fresh");
  EXPECT_TRUE(tiny::Tree(dir_ / "out") == tiny::Tree(dir_ / "fresh"));
}

TEST_F(WriteDistributionTest, NothingElseIsReplacedEvenWithForce) {
  fs::create_directory(dir_ / "out");
  fixtures::WriteFile(dir_ / "out/mine.txt", "mine");
  WriteOptions options = tiny::Only();
  options.force = true;
  const auto report = tiny::Write(dir_ / "out", options);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(fs::exists(dir_ / "out/mine.txt"));
}

// A copy of the source, so that a broken check cannot destroy the one in the repository.
class OutputNearSource : public WriteDistributionTest {
 protected:
  OutputNearSource() {
    fs::create_directories(source_);
    fs::copy(tiny::kSource, source_);
  }
  void ExpectRefused(const fs::path& out) {
    WriteOptions options = tiny::Only();
    options.force = true;
    const auto report = tiny::Write(out, options, source_);
    ASSERT_FALSE(report) << out;
    EXPECT_EQ(report.error().code, Code::kInvalidArgument) << report.error().message;
    EXPECT_THAT(report.error().message, HasSubstr(" the input"));
    EXPECT_EQ(tiny::Tree(source_), tiny::Tree(tiny::kSource));
  }
  const fs::path source_ = dir_ / "deep/source";
};

TEST_F(OutputNearSource, TheSourceIsNeverReplaced) {
  ExpectRefused(source_);
  ExpectRefused(source_ / ".");
  fs::create_directory_symlink(source_, dir_ / "link");
  ExpectRefused(dir_ / "link");
}

TEST_F(OutputNearSource, ADirectoryAroundTheSourceIsRefused) {
  ExpectRefused(dir_ / "deep");
  ExpectRefused(dir_.path());
}

TEST_F(OutputNearSource, AFileOfTheSourceIsRefused) {
  for (const char* file : {"model-00002-of-00003.safetensors", "model.safetensors.index.json",
                           "config.json", "NOTE.md"}) {
    ExpectRefused(source_ / file);
  }
}

TEST_F(OutputNearSource, ADirectoryThatHoldsAShardIsRefused) {
  fs::create_directory(source_ / "part");
  for (int i = 1; i <= 3; ++i) {
    const std::string name = Cat("model-0000", i, "-of-00003.safetensors");
    fs::rename(source_ / name, source_ / "part" / name);
  }
  std::string index = fixtures::ReadFile(source_ / "model.safetensors.index.json");
  for (size_t at = 0; (at = index.find("\"model-0", at)) != std::string::npos; at += 8) {
    index.insert(at + 1, "part/");
  }
  fixtures::WriteFile(source_ / "model.safetensors.index.json", index);
  const auto before = tiny::Tree(source_);
  WriteOptions options = tiny::Only();
  options.force = true;
  const auto report = tiny::Write(source_ / "part", options, source_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kInvalidArgument);
  EXPECT_EQ(tiny::Tree(source_), before);
}

TEST_F(OutputNearSource, ANewDirectoryInsideTheSourceIsAccepted) {
  const auto report = tiny::Write(source_ / "split", tiny::Only(), source_);
  ASSERT_TRUE(report) << report.error().message;
  Write("apart");
  EXPECT_EQ(tiny::Tree(source_ / "split"), tiny::Tree(dir_ / "apart"));
}

TEST_F(WriteDistributionTest, WritesSourceDigestsOnRequest) {
  WriteOptions options = tiny::Only();
  EXPECT_THAT(Write("without").manifest.model.source[0].sha256, IsEmpty());
  options.hash_source = true;
  const WriteReport report = Write("with", options);
  ASSERT_EQ(report.manifest.model.source.size(), 3u);
  for (const SourceRecord& source : report.manifest.model.source) {
    const std::string bytes = fixtures::ReadFile(tiny::kSource / source.file);
    EXPECT_EQ(source.sha256, Sha256Hex(bytes)) << source.file;
    EXPECT_EQ(source.size, bytes.size()) << source.file;
  }
}

TEST_F(WriteDistributionTest, ATimeIsWrittenOnlyWithSourceDateEpoch) {
  Write("without");
  EXPECT_EQ(fixtures::ReadFile(dir_ / "without/distribution.json").find("created"),
            std::string::npos);
  ASSERT_EQ(setenv("SOURCE_DATE_EPOCH", "1700000000", 1), 0);
  const WriteReport report = Write("with");
  ASSERT_EQ(unsetenv("SOURCE_DATE_EPOCH"), 0);
  EXPECT_EQ(report.manifest.created, 1700000000u);
  EXPECT_THAT(fixtures::ReadFile(dir_ / "with/distribution.json"),
              HasSubstr("\"created\": 1700000000"));
}

TEST_F(WriteDistributionTest, ATimeThatIsNotANumberIsRefused) {
  setenv("SOURCE_DATE_EPOCH", "yesterday", 1);
  const auto written = tiny::Write(dir_ / "out");
  unsetenv("SOURCE_DATE_EPOCH");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kInvalidArgument);
  EXPECT_THAT(written.error().message, HasSubstr("SOURCE_DATE_EPOCH"));
}

TEST_F(WriteDistributionTest, ASelectionOfNothingIsRefused) {
  const auto written = tiny::Write(dir_ / "out", tiny::Only({"remainder"}));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kInvalidArgument);
  EXPECT_THAT(written.error().message, HasSubstr("--only chooses nothing that this plan has"));
  EXPECT_FALSE(fs::exists(dir_ / "out"));
}

TEST_F(WriteDistributionTest, KeepsTheRemainderOnlyOnRequest) {
  fixtures::WriteFile(dir_ / "groups.json",
                      R"({"groups": [{"*": "0-4"}, {"*": "5-9"}, {"*": "10-14"}]})");
  const MoeModel model = tiny::Model();
  PlanOptions plan_options;
  plan_options.partition = "explicit:" + (dir_ / "groups.json").string();
  const Plan plan = tiny::Plan(model, plan_options);
  ASSERT_TRUE(WriteDistribution(model, plan, (dir_ / "without").string(), tiny::Only()));
  EXPECT_FALSE(fs::exists(dir_ / "without/remainder"));

  WriteOptions options = tiny::Only();
  options.slice.keep_remainder = true;
  const auto report = WriteDistribution(model, plan, (dir_ / "with").string(), options);
  ASSERT_TRUE(report) << report.error().message;
  const BundleRecord* bundle = FindBundle(report->manifest, "remainder/experts.safetensors");
  ASSERT_NE(bundle, nullptr);
  EXPECT_EQ(bundle->role, Role::kRemainder);
  EXPECT_EQ(bundle->tensors.size(), 3u * 3u);  // expert 15 of three layers
  for (const TensorRecord& tensor : bundle->tensors) {
    EXPECT_THAT(tensor.expert_ids, ElementsAre(15)) << tensor.name;
  }
  ExpectVerified("with");
}

TEST_F(WriteDistributionTest, SplitsPartsIntoFilesOfTheRequestedSize) {
  WriteOptions options = tiny::Only();
  options.slice.max_part_size = 1u << 20;
  const WriteReport report = Write("out", options);
  size_t group_files = 0;
  for (const BundleRecord& bundle : report.manifest.bundles) {
    uint64_t bytes = 0;
    for (const TensorRecord& tensor : bundle.tensors) bytes += tensor.bytes;
    EXPECT_TRUE(bytes <= options.slice.max_part_size || bundle.tensors.size() == 1) << bundle.file;
    if (bundle.role == Role::kGroup && bundle.group == 1) {
      ++group_files;
      EXPECT_THAT(bundle.file, AllOf(StartsWith("groups/001/experts-0000"), HasSubstr("-of-")));
    }
  }
  EXPECT_GT(group_files, 1u);
  ExpectVerified("out");
}

}  // namespace
}  // namespace moepack::manifest
