#include "manifest/write/card_sections.h"

#include <gmock/gmock.h>

#include "libshard/base/digest.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;
using testing::Not;

Manifest Measured(const char* text) {
  Manifest manifest = sample::Make().manifest;
  manifest.original = std::make_shared<const Json>(Json::parse(text));
  return manifest;
}

TEST(CardSections, SayWhatWasNotMeasured) {
  for (const char* text : {"{}", R"({"quality": {}})", R"({"quality": 3})"}) {
    const std::string measured = MeasuredText(Measured(text));
    EXPECT_THAT(measured, HasSubstr("Not measured. `moepack eval . --text FILE`")) << text;
    EXPECT_THAT(measured, Not(HasSubstr("| measured |"))) << text;
  }
}

// Without the model `eval` would refuse: there is nothing to compare with.
TEST(CardSections, MeasureAgainstTheModelWhatDoesNotHoldAllOfIt) {
  constexpr const char* kAgainst =
      "`moepack eval . --against SRC --text FILE` measures on held-out text what the split costs; "
      "SRC is the model that it was made from.\n";
  EXPECT_THAT(MeasuredText(Measured("{}")), Not(HasSubstr("--against")));
  Manifest refitted = Measured("{}");
  refitted.refit = std::make_shared<const RefitRecord>();
  EXPECT_THAT(MeasuredText(refitted), HasSubstr(kAgainst));
  Manifest dropped = Measured("{}");
  dropped.plan.groups[2].owned[1] = {4};
  dropped.plan.remainder[1] = {5};
  EXPECT_THAT(MeasuredText(dropped), HasSubstr(kAgainst));
}

TEST(CardSections, GiveEveryFigureARow) {
  const std::string text = MeasuredText(Measured(
      R"({"quality": {"kld": 0.0125, "groups": [{"group": 0, "top1": 0.5}]},
          "calibration": {"suite": "wiki|pedia", "tokens": 1000}})"));
  EXPECT_THAT(text, Not(HasSubstr("Not measured")));
  EXPECT_THAT(text, HasSubstr("\n| measured | |\n| --- | --- |\n| kld | 0.0125 |\n"));
  EXPECT_THAT(text, HasSubstr("\n| groups\\[0\\].top1 | 0.5 |\n"));
  EXPECT_THAT(text, HasSubstr("\n| calibration | |\n| --- | --- |\n| suite | wiki\\|pedia |\n"));
  EXPECT_THAT(text, HasSubstr("\n| tokens | 1000 |\n"));
}

TEST(CardSections, ShortenTheTableOfVeryManyFigures) {
  Json quality = Json::object();
  for (int i = 0; i < 100; ++i) quality[Cat("figure_", i)] = i;
  const std::string text = MeasuredText(Measured(Json{{"quality", quality}}.dump().c_str()));
  EXPECT_THAT(text, HasSubstr("| figure_63 | 63 |"));
  EXPECT_THAT(text, Not(HasSubstr("figure_64")));
  EXPECT_THAT(text, HasSubstr("\n36 more are in `distribution.json`.\n"));
}

TEST(CardSections, EscapeMarkupInHostileFigures) {
  const std::string text = MeasuredText(
      Measured(R"({"quality": {"<b>": "x | y\n\n# forged", "k": "<script>\u001b[2J"}})"));
  EXPECT_THAT(text, Not(HasSubstr("<b>")));
  EXPECT_THAT(text, Not(HasSubstr("\n# forged")));
  EXPECT_THAT(text, Not(HasSubstr("<script>")));
  EXPECT_THAT(text, Not(HasSubstr("\x1b")));
}

TEST(CardSections, NameTheSourceWithItsFilesAndDigests) {
  Manifest manifest = sample::Make().manifest;
  for (SourceRecord& source : manifest.model.source)
    source.origin = Origin{"hf://owner/name@0123/" + source.file, "0123", "", ""};
  const std::string text = ProvenanceText(manifest);
  EXPECT_THAT(text, HasSubstr("\n- model: example/tiny\n- revision: main\n"));
  EXPECT_THAT(text, HasSubstr("- read from: `https://huggingface.co/owner/name/tree/0123`\n"));
  EXPECT_THAT(text, HasSubstr("- command, without paths: `moepack build --groups 3`\n"));
  EXPECT_THAT(text, HasSubstr(Cat("\n| `model.safetensors` | 4,096 | `", std::string(64, 'a'),
                                  "` (header) |\n| `more.safetensors` | 512 | `",
                                  std::string(64, 'c'), "` |\n")));
}

TEST(CardSections, ShortenTheTableOfVeryManySourceFiles) {
  Manifest manifest = sample::Make().manifest;
  manifest.model.source.assign(300, manifest.model.source[0]);
  EXPECT_THAT(ProvenanceText(manifest), HasSubstr("\n44 more are in `distribution.json`.\n"));
}

TEST(CardSections, ContainTheDigestOfTheManifest) {
  const Manifest manifest = sample::Make().manifest;
  EXPECT_THAT(
      ProvenanceText(manifest),
      HasSubstr(Cat("proves all files but this one:\n\n```\nmoepack verify . --digest sha256:",
                    Sha256Hex(WriteManifest(manifest)), "\n")));
}

}  // namespace
}  // namespace moepack::manifest
