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

TEST(CardSections, SayWhichDigestsAreThoseOfHeaders) {
  constexpr const char* kHeader = "\n(header): the digest is that of the bytes before the data";
  Manifest manifest = sample::Make().manifest;
  EXPECT_THAT(ProvenanceText(manifest), HasSubstr(kHeader));
  for (SourceRecord& source : manifest.model.source) source.sha256 = std::string(64, 'b');
  EXPECT_THAT(ProvenanceText(manifest), Not(HasSubstr("header")));
}

TEST(CardSections, PutCapitalsInThePlaceOfPathsThatAreNotRecorded) {
  Manifest manifest = sample::Make().manifest;
  manifest.command = {"build", "--plan", "--refit-store", "--calibrated-store"};
  EXPECT_THAT(
      ProvenanceText(manifest),
      HasSubstr("`moepack build --plan PLAN --refit-store STORE --calibrated-store STORE`"));
  // As another version may write it.
  manifest.command = {"build", "--plan", "plan.json", "--chunk-map"};
  EXPECT_THAT(ProvenanceText(manifest), HasSubstr("`moepack build --plan plan.json --chunk-map`"));
}

TEST(CardSections, NameTheOverlaysThatTheCommandDidNotMake) {
  Manifest manifest = sample::Make().manifest;
  manifest.plan.overlays.push_back(manifest.plan.overlays[0]);
  manifest.plan.overlays[1].version = "generalists-2";
  manifest.plan.overlays[1].parent = "generalists-1";
  manifest.command = {"build", "--groups", "3", "--overlay-file", "overlay.json"};
  const std::string made = ProvenanceText(manifest);
  EXPECT_THAT(made, HasSubstr("\n- overlay `generalists-2`: made from `generalists-1` by "
                              "`moepack overlay`\n"));
  EXPECT_THAT(made, Not(HasSubstr("- overlay `generalists-1`")));
  manifest.command = {"build", "--groups", "3"};
  EXPECT_THAT(ProvenanceText(manifest),
              HasSubstr("\n- overlay `generalists-1`: added later, by `moepack overlay`\n"));
  manifest.command = {"quantize", "--recipe", "Q4_K_M"};
  EXPECT_THAT(ProvenanceText(manifest), Not(HasSubstr("added later")));
}

TEST(CardSections, ExplainEveryColumnOfWhatWasMeasured) {
  Manifest manifest = sample::Make().manifest;
  QualityRecord quality;
  quality.unmasked = QualityRow{};
  quality.unmasked->all.total = DamageFigures();
  manifest.quality = quality;
  const std::string text = MeasuredText(manifest);
  EXPECT_THAT(text, HasSubstr(" A node is compared with the whole model in the same types.\n\n"));
  for (const char* column : {"- nats: ", "- extra nats: ", "- KLD: ", "- same top-1: "})
    EXPECT_THAT(text, HasSubstr(Cat("\n", column)));
  EXPECT_THAT(text, HasSubstr("\n| whole model, compared with the unquantized model | "));
  EXPECT_THAT(text, HasSubstr(" from the unquantized model.\n"));
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
