#include "manifest/registry/publish_files.h"

#include <gmock/gmock.h>

#include "libshard/base/digest.h"
#include "libshard/base/text/text.h"
#include "manifest/write/bundle.h"
#include "manifest/write/front_matter.h"
#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class PublishFilesTest : public LayoutSample {
 protected:
  void SetUp() override { Write("dist"); }
  Result<PublishFilesReport> Lay(const PutOptions& options = {}, const std::string& name = "dist") {
    return PublishFiles(Path(name), Path("out"), options);
  }
  std::string Text(const std::string& name) const { return fixtures::ReadFile(dir_ / name); }
  void ExpectRefused(const Result<PublishFilesReport>& found, Code code, const char* message) {
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, code);
    EXPECT_THAT(found.error().message, HasSubstr(message));
  }
};

TEST_F(PublishFilesTest, TheOutputHasEveryFileAndGitAttributes) {
  const auto report = Lay();
  ASSERT_TRUE(report) << report.error().message;
  auto expected = tiny::Tree(dir_ / "dist");
  auto found = tiny::Tree(dir_ / "out");
  uint64_t bytes = 0;
  for (const auto& [name, content] : found) bytes += content.size();
  EXPECT_EQ(report->total_bytes(), bytes);
  EXPECT_EQ(report->files.size(), found.size());
  EXPECT_EQ(found[".gitattributes"], GitAttributes(report->files));
  found.erase(".gitattributes");
  EXPECT_EQ(found, expected);
}

TEST_F(PublishFilesTest, LargeFilesAreLinkedAndSmallOnesCopied) {
  const auto report = Lay();
  ASSERT_TRUE(report) << report.error().message;
  for (const auto& file : report->files) {
    const bool asset = file.name.starts_with("assets/");
    const bool weights = file.name.ends_with(".safetensors");
    EXPECT_EQ(file.how, asset ? "copy" : weights ? "hardlink" : "written") << file.name;
  }
  PutOptions options;
  options.link = manifest::LinkKind::kCopy;
  options.force = true;
  ASSERT_TRUE(Lay(options));
  EXPECT_FALSE(
      fs::equivalent(dir_ / "dist/trunk/trunk.safetensors", dir_ / "out/trunk/trunk.safetensors"));
}

TEST_F(PublishFilesTest, AddsFrontMatterToAHandWrittenReadme) {
  fixtures::WriteFile(dir_ / "dist/README.md", "# Mine\n");
  ASSERT_TRUE(Lay());
  EXPECT_THAT(Text("out/README.md"),
              AllOf(testing::StartsWith("---\n"), testing::EndsWith("---\n# Mine\n")));
  EXPECT_EQ(Text("dist/README.md"), "# Mine\n");
}

TEST_F(PublishFilesTest, RecreatesAMissingReadme) {
  const std::string before = Text("dist/README.md");
  fs::remove(dir_ / "dist/README.md");
  ASSERT_TRUE(Lay());
  EXPECT_EQ(Text("out/README.md"), before);
}

TEST_F(PublishFilesTest, NamesADamagedFileAndLeavesNothing) {
  const std::string name = "groups/001/experts.safetensors";
  std::string bytes = Text("dist/" + name);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  fixtures::WriteFile(dir_ / "dist" / name, bytes);
  const auto damaged = Lay();
  ExpectRefused(damaged, Code::kMismatch, (name + ": sha256: expected ").c_str());
  EXPECT_THAT(damaged.error().hint, HasSubstr("moepack verify "));
  EXPECT_FALSE(fs::exists(dir_ / "out"));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
  bytes.pop_back();
  fixtures::WriteFile(dir_ / "dist" / name, bytes);
  ExpectRefused(Lay(), Code::kMismatch, ": file size: expected ");
  fs::remove(dir_ / "dist" / name);
  ExpectRefused(Lay(), Code::kNotFound, ": expected a file of ");
}

TEST_F(PublishFilesTest, ReplacesOnlyItsOwnOutputAndOnlyWithForce) {
  ASSERT_TRUE(Lay());
  ExpectRefused(Lay(), Code::kInvalidArgument, "already exists");
  PutOptions force;
  force.force = true;
  ASSERT_TRUE(Lay(force));
  fixtures::WriteFile(dir_ / "out/notes.txt", "mine");
  ExpectRefused(Lay(force), Code::kInvalidArgument, "notes.txt");
  EXPECT_EQ(Text("out/notes.txt"), "mine");
}

TEST_F(PublishFilesTest, AnOutputInsideTheDistributionIsRefused) {
  const auto found = PublishFiles(Path("dist"), Path("dist/upload"), {});
  ExpectRefused(found, Code::kInvalidArgument, "lies inside the input");
  ExpectRefused(PublishFiles(Path("dist"), Path("dist"), {}), Code::kInvalidArgument,
                "is the input itself");
}

TEST_F(PublishFilesTest, AnIncompleteDistributionNeedsPermission) {
  Write("part", {"trunk", "assets", "group:2"});
  ExpectRefused(Lay({}, "part"), Code::kInvalidArgument, "lacks group:0, group:1, overlay");
  PutOptions options;
  options.allow_incomplete = true;
  const auto report = Lay(options, "part");
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->group, 2u);
}

TEST_F(PublishFilesTest, ADryRunCountsTheSameAndWritesNothing) {
  PutOptions options;
  options.dry_run = true;
  const auto dry = Lay(options);
  ASSERT_TRUE(dry) << dry.error().message;
  EXPECT_FALSE(fs::exists(dir_ / "out"));
  EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
  const auto real = Lay();
  EXPECT_EQ(dry->total_bytes(), real->total_bytes());
  for (const auto& file : dry->files) EXPECT_EQ(file.how, "");
}

// `pull` reads the output as the artifact that `publish` makes from the distribution.
TEST_F(PublishFilesTest, AGroupCanBePulledFromTheOutput) {
  ASSERT_TRUE(Lay());
  const auto pulled =
      PullGroups({1}, Reference{Reference::Kind::kFiles, Path("out"), "", ""}, "pulled");
  ASSERT_TRUE(pulled) << pulled.error().message;
  EXPECT_EQ(Text("pulled/distribution.json"), Text("dist/distribution.json"));
  EXPECT_TRUE(fs::exists(dir_ / "pulled/groups/001/experts.safetensors"));
  EXPECT_FALSE(fs::exists(dir_ / "pulled/groups/000"));
  EXPECT_FALSE(fs::exists(dir_ / "pulled/.gitattributes"));
}

TEST(GitAttributesText, MarksWeightsAndLargeFilesForLfs) {
  const std::string text = GitAttributes({{"trunk/trunk.gguf", 1'000'000'000},
                                          {"assets/tokenizer.json", 10'000'001},
                                          {"assets/vocab.json", 10'000'000},
                                          {"distribution.json", 60'000'000},
                                          {"assets/tokenizer [*] \"x\".json", 10'000'001}});
  EXPECT_EQ(text,
            "*.gguf filter=lfs diff=lfs merge=lfs -text\n"
            "*.safetensors filter=lfs diff=lfs merge=lfs -text\n"
            "*.model filter=lfs diff=lfs merge=lfs -text\n"
            "/assets/tokenizer.json filter=lfs diff=lfs merge=lfs -text\n"
            "/distribution.json filter=lfs diff=lfs merge=lfs -text\n"
            "/assets/tokenizer??????x?.json filter=lfs diff=lfs merge=lfs -text\n");
}

}  // namespace
}  // namespace moepack::registry
