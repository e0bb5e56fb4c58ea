#include "manifest/write/record_quality.h"

#include <gmock/gmock.h>

#include <cerrno>

#include "fixtures/system_calls.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "manifest/write/bundle.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using ::testing::HasSubstr;

QualityRecord Measured(double kld) {
  QualityRecord record;
  record.tool_version = "1.2.3";
  record.tokens_sha256 = std::string(64, 'a');
  record.context = 512;
  record.sessions = 3;
  record.tokens = 1234;
  QualityFigures figures{3, 1234, {3.25, 0.125}, std::nullopt, std::nullopt};
  record.unmasked = QualityRow{figures, {}};
  figures.split = DamageFigures{{kld, 0.01}, {kld / 2, 0.02}, {0.75, 0.03}};
  record.groups = {{0, {figures, {{"co|de", figures}}}}};
  record.best = {figures, {}};
  return record;
}

class Recording : public ::testing::Test {
 protected:
  Recording() {
    sample::Make().WriteTo(out_);
    fixtures::WriteFile(out_ / "README.md", old_card_);
  }
  std::string Text(const char* file) const { return fixtures::ReadFile(out_ / file); }
  Result<RecordReport> Record(double kld) {
    return RecordQuality(out_.string(), Measured(kld), Sha256Hex(Text("distribution.json")));
  }
  const std::string old_card_ = DistributionReadme(sample::Make().manifest);
  fixtures::TempDir temp_;
  const std::filesystem::path out_ = temp_.path() / "out";
};

TEST_F(Recording, WritesTheManifestAndTheCardAndNothingElse) {
  const std::string trunk = Text("trunk/trunk.safetensors");
  const auto report = Record(0.5);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->changed);
  EXPECT_FALSE(report->pulled);
  const auto read = ReadManifest(out_.string());
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(*read->quality, Measured(0.5));
  EXPECT_EQ(report->digest, Sha256Hex(Text("distribution.json")));
  EXPECT_EQ(Text("README.md"), DistributionReadme(*read));
  EXPECT_THAT(Text("README.md"), HasSubstr(report->digest));
  EXPECT_EQ(Text("trunk/trunk.safetensors"), trunk);
  EXPECT_FALSE(std::filesystem::exists(temp_.path() / "out.partial"));
}

TEST_F(Recording, TheSameFiguresGiveTheSameBytes) {
  ASSERT_TRUE(Record(0.5));
  const std::string manifest = Text("distribution.json"), card = Text("README.md");
  const auto again = Record(0.5);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->changed);
  ASSERT_TRUE(Record(0.25));
  EXPECT_NE(Text("distribution.json"), manifest);
  ASSERT_TRUE(Record(0.5));
  EXPECT_EQ(Text("distribution.json"), manifest);
  EXPECT_EQ(Text("README.md"), card);
}

TEST_F(Recording, WritesACardWhereThereIsNone) {
  ASSERT_TRUE(Record(0.5));
  const std::string card = Text("README.md");
  std::filesystem::remove(out_ / "README.md");
  const auto again = Record(0.5);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->changed);
  EXPECT_EQ(Text("README.md"), card);
}

TEST_F(Recording, KeepsWhatSomebodyWroteIntoTheCard) {
  const std::string note = "\n## Our notes\n\nWorks well.\n";
  std::string edited = old_card_;
  edited.replace(edited.find(", split into"), 12, ", divided into");
  fixtures::WriteFile(out_ / "README.md", edited + note);
  for (const double kld : {0.5, 0.25, 0.25}) {
    const auto report = Record(kld);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->readme.edited);
    EXPECT_TRUE(report->readme.shows_changes);
    // All of it is that of the new manifest but for the edits.
    std::string expected = DistributionReadme(*ReadManifest(out_.string())) + note;
    expected.replace(expected.find(", split into"), 12, ", divided into");
    EXPECT_EQ(Text("README.md"), expected);
    EXPECT_THAT(Text("README.md"), HasSubstr(report->digest));
  }
}

TEST_F(Recording, LeavesACardAloneWhoseSectionSomebodyRewrote) {
  fixtures::WriteFile(out_ / "README.md", "# Our own card\n");
  for (const bool changes : {true, false}) {
    const auto report = Record(0.5);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->changed, changes);
    EXPECT_EQ(report->readme.shows_changes, !changes);
    EXPECT_EQ(Text("README.md"), "# Our own card\n");
    EXPECT_EQ(*ReadManifest(out_.string())->quality, Measured(0.5));
  }
  std::filesystem::remove(out_ / "README.md");
  fixtures::WriteFile(temp_.path() / "card.md", "# Our own card\n");
  std::filesystem::create_symlink(temp_.path() / "card.md", out_ / "README.md");
  ASSERT_TRUE(Record(0.25));
  EXPECT_TRUE(std::filesystem::is_symlink(out_ / "README.md"));
  EXPECT_EQ(Text("README.md"), "# Our own card\n");
}

TEST_F(Recording, RefusesADistributionThatChangedSinceTheRun) {
  const auto report = RecordQuality(out_.string(), Measured(0.5), std::string(64, '0'));
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, Code::kMismatch);
  EXPECT_THAT(report.error().message,
              HasSubstr(Cat(out_.string(), "/distribution.json: SHA-256: expected ",
                            std::string(64, '0'), " as when the evaluation began, found ")));
  EXPECT_EQ(Text("README.md"), old_card_);
}

TEST_F(Recording, PutsTheCardBackWhenTheManifestCannotBeMoved) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const std::string manifest = Text("distribution.json");
  const int status = fixtures::RunInChild([&] {
    fixtures::WatchSystemCalls(temp_.path(), [](const std::string& call) {
      const bool last = call.starts_with("rename ") && call.ends_with("-> out/distribution.json");
      return last ? EIO : fixtures::kLetItHappen;
    });
    const auto report = Record(0.5);
    return !report && report.error().code == Code::kIo ? 0 : 1;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(Text("README.md"), old_card_);
  EXPECT_EQ(Text("distribution.json"), manifest);
  ASSERT_TRUE(Record(0.5));
}

TEST_F(Recording, LeavesARecordableDistributionWhereverItIsKilled) {
  if (!fixtures::CanWatchSystemCalls()) GTEST_SKIP() << fixtures::kCannotWatch;
  const std::string manifest = Text("distribution.json");
  int number = 0;
  while (fixtures::IsKilledAtCall(temp_.path(), number, [&] { return Record(0.5) ? 0 : 1; })) {
    const auto read = ReadManifest(out_.string());
    ASSERT_TRUE(read) << number << ": " << read.error().message;
    // The manifest that states the figures has its card.
    if (read->quality) {
      EXPECT_EQ(Text("README.md"), DistributionReadme(*read)) << number;
    } else {
      EXPECT_EQ(Text("distribution.json"), manifest) << number;
    }
    ASSERT_TRUE(Record(0.5)) << number;
    EXPECT_EQ(Text("README.md"), DistributionReadme(*ReadManifest(out_.string())));
    fixtures::WriteFile(out_ / "distribution.json", manifest);
    fixtures::WriteFile(out_ / "README.md", old_card_);
    ++number;
  }
  EXPECT_GT(number, 4);
}

TEST_F(Recording, NotesThatAPulledDistributionHadItsOwnSignatures) {
  fixtures::WriteFile(out_ / "pulled.json", "{}\n");
  const auto report = Record(0.5);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->pulled);
}

TEST_F(Recording, RefusesWhatItsReaderWouldRefuse) {
  QualityRecord record = Measured(0.5);
  record.groups[0].first = 99;
  const auto report = RecordQuality(out_.string(), record, Sha256Hex(Text("distribution.json")));
  ASSERT_FALSE(report);
  EXPECT_THAT(report.error().message, HasSubstr("group: expected a number below"));
  EXPECT_EQ(Text("README.md"), old_card_);
}

TEST_F(Recording, TheCardHasTheFiguresOfEveryNodeAndBucket) {
  ASSERT_TRUE(Record(0.5));
  const std::string card = Text("README.md");
  EXPECT_THAT(card, HasSubstr("Measured by moepack 1.2.3 on 1,234 tokens of 3 sessions"));
  EXPECT_THAT(card, HasSubstr("| whole model | 1,234 | 3.25 ± 0.12 |  |  |  |\n"));
  EXPECT_THAT(card, HasSubstr("| each session on its node | 1,234 | 3.25 ± 0.12 | 0.25 ± 0.02 | "
                              "0.5 ± 0.01 | 75.0 % ± 3.0 % |\n"));
  EXPECT_THAT(card, HasSubstr("| node 0, co\\|de | 1,234 |"));
  EXPECT_THAT(card, HasSubstr(Cat("SHA-256 `", std::string(64, 'a'), "`")));
}

}  // namespace
}  // namespace moepack::manifest
