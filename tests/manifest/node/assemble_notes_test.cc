#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/temp_dir.h"
#include "manifest/node/assemble.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::manifest {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// The notes of a node whose model has `settings` in its config.json.
std::vector<std::string> NotesWith(const std::string& settings) {
  const fixtures::TempDir dir;
  fs::copy(tiny::kSource, dir / "source");
  std::string config = fixtures::ReadFile(dir / "source/config.json");
  config.insert(config.find('{') + 1, settings);
  fs::remove(dir / "source/config.json");
  std::ofstream(dir / "source/config.json") << config;
  EXPECT_TRUE(tiny::Write(dir / "dist", tiny::Only(), dir / "source"));
  AssembleOptions options;
  options.dry_run = true;
  const auto report = AssembleNode((dir / "dist").string(), (dir / "node").string(), options);
  EXPECT_TRUE(report) << report.error().message;
  return report ? report->notes : std::vector<std::string>();
}

TEST(AssembleNotes, WarnOfSettingsThatNameSingleExperts) {
  EXPECT_THAT(
      NotesWith(R"("quantization_config": {"ignore": ["model.layers.0.mlp.experts.4.up_proj"]},)"),
      ElementsAre(HasSubstr("config.json names single experts")));
  EXPECT_THAT(NotesWith(R"("quantization_config": {"ignore": ["re:.*experts\\.5\\..*"]},)"),
              ElementsAre(HasSubstr("config.json names single experts")));
}

TEST(AssembleNotes, IgnoreSettingsAboutAllExperts) {
  EXPECT_THAT(
      NotesWith(R"("quantization_config": {"ignore": ["re:.*mlp.experts.*", "experts.x"]},)"),
      IsEmpty());
}

}  // namespace
}  // namespace moepack::manifest
