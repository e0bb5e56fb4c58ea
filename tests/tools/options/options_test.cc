#include "tools/options/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>

namespace moepack::cli {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The message of the parser; "" if it accepted the words.
std::string ParseProblem(CLI::App& app, std::vector<std::string> words) {
  std::reverse(words.begin(), words.end());
  try {
    app.parse(words);
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "";
}

struct Parsed {
  uint64_t number = 0;
  std::string problem;
};

Parsed ParseOne(const CLI::Validator& check, const std::string& text) {
  Parsed parsed;
  CLI::App app;
  app.add_option("--x", parsed.number)->transform(check);
  parsed.problem = ParseProblem(app, {"--x", text});
  return parsed;
}

TEST(Options, CountsAreDecimalAndInRange) {
  EXPECT_EQ(ParseOne(AsCount(1, 20), "12").number, 12u);
  EXPECT_EQ(ParseOne(AsCount(1, 20), "010").number, 10u);
  for (const char* wrong : {"0", "21", "-1", "1e3", "0x10", "", "99999999999999999999"}) {
    EXPECT_THAT(ParseOne(AsCount(1, 20), wrong).problem,
                HasSubstr("expected a number from 1 to 20"))
        << wrong;
  }
}

TEST(Options, SizesAcceptUnits) {
  EXPECT_EQ(ParseOne(AsBytes(1), "64M").number, 64'000'000u);
  EXPECT_EQ(ParseOne(AsBytes(1), "2GiB").number, 2ull << 30);
  EXPECT_THAT(ParseOne(AsBytes(1), "many").problem, HasSubstr("expected a size such as 64M"));
  EXPECT_THAT(ParseOne(AsBytes(4096), "1k").problem, HasSubstr("expected at least 4 KiB"));
  EXPECT_THAT(ParseOne(AsBytes(1u << 20), "1M").problem, HasSubstr("expected at least 1 MiB,"));
  EXPECT_THAT(ParseOne(AsBytes(16'000'000), "1M").problem, HasSubstr("expected at least 16 MB,"));
  EXPECT_THAT(ParseOne(AsBytes(1), "0").problem, HasSubstr("expected at least 1 B,"));
}

TEST(Options, ChoicesListWhatTheyAccept) {
  std::string value;
  CLI::App app;
  app.add_option("--x", value)->transform(OneOf({"text", "json"}));
  EXPECT_EQ(ParseProblem(app, {"--x", "xml"}), "--x: expected one of text, json, found \"xml\"");
  EXPECT_EQ(ParseProblem(app, {"--x", "json"}), "");
  EXPECT_EQ(value, "json");
}

TEST(Options, PlanOptionsDefaultToThoseOfTheLibrary) {
  PlanOptions options;
  CLI::App app;
  AddPlanOptions(app, options);
  EXPECT_EQ(ParseProblem(app, {"--groups", "3", "--no-uniform"}), "");
  EXPECT_EQ(options.groups, 3u);
  EXPECT_FALSE(options.partition);
  EXPECT_FALSE(options.uniform);
}

TEST(Options, PartitionKindsAreChecked) {
  PlanOptions options;
  CLI::App app;
  AddPlanOptions(app, options);
  for (const char* wrong : {"random", "explicit:", "explicit"}) {
    EXPECT_THAT(ParseProblem(app, {"--partition", wrong}), HasSubstr("contiguous, modulo"))
        << wrong;
  }
  EXPECT_EQ(ParseProblem(app, {"--partition", "explicit:a.json"}), "");
}

TEST(Options, OnlyAnExplicitPartitionNeedsNoGroups) {
  EXPECT_FALSE(CheckPlanOptions({}));
  EXPECT_EQ(CheckPlanOptions({}).error().code, Code::kInvalidArgument);
  PlanOptions two, listed;
  two.groups = 2;
  listed.partition = "explicit:groups.json";
  EXPECT_TRUE(CheckPlanOptions(two));
  EXPECT_TRUE(CheckPlanOptions(listed));
}

TEST(Options, TheRecordedCommandHasNoPaths) {
  const PlanOptions options{.groups = 3,
                            .partition = "explicit:/home/me/groups.json",
                            .overlay_file = "/tmp/overlay.json"};
  EXPECT_THAT(RecordPlanOptions(options),
              ElementsAre("--groups", "3", "--partition", "explicit:groups.json", "--overlay-file",
                          "overlay.json", "--uniform"));
  EXPECT_THAT(RecordPlanOptions({.groups = 3}),
              ElementsAre("--groups", "3", "--partition", "contiguous", "--uniform"));
}

}  // namespace
}  // namespace moepack::cli
