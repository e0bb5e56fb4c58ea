#include "runtime-shim/refit/refit_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::runtime {
namespace {

using testing::HasSubstr;

TEST(RefitOptions, ReadBackFromARecord) {
  RefitOptions options;
  options.steps = {"router"};
  options.lambda = 0.125;
  options.pool = 7;
  options.top_k = 4;
  options.memory = 1ull << 40;
  RefitRecord record;
  RecordOptions(options, record);
  const auto read = OptionsOf("refit.json", record);
  ASSERT_TRUE(read) << read.error().message;
  RefitRecord again;
  RecordOptions(*read, again);
  EXPECT_EQ(again, record);
  EXPECT_EQ(read->lambda, 0.125);
  EXPECT_EQ(read->top_k, 4u);
}

// Records of cpu have the bytes that they had before executors were recorded.
TEST(RefitOptions, TheCpuIsTheExecutorOfARecordThatNamesNone) {
  RefitOptions options;
  RefitRecord record;
  RecordOptions(options, record);
  EXPECT_EQ(record.parameters.count("executor"), 0u);
  EXPECT_EQ(OptionsOf("refit.json", record)->executor, "cpu");
  options.executor = "vulkan";
  RecordOptions(options, record);
  EXPECT_EQ(record.parameters.at("executor"), "vulkan");
  EXPECT_EQ(OptionsOf("refit.json", record)->executor, "vulkan");
}

// Records without this step have the bytes that they had before there was one.
TEST(RefitOptions, OnlyARecordThatTunesHasTheNumberOfUpdates) {
  RefitOptions options;
  options.steps = {"ridge"};
  options.updates = 7;
  RefitRecord record;
  RecordOptions(options, record);
  EXPECT_EQ(record.parameters.count("updates"), 0u);
  options.steps = {"ridge", "tune"};
  RecordOptions(options, record);
  EXPECT_EQ(OptionsOf("refit.json", record)->updates, 7u);
  for (const char* const wrong : {"0", "many", "4294967297"}) {
    record.parameters["updates"] = wrong;
    const auto read = OptionsOf("refit.json", record);
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message, HasSubstr("updates: expected a number, found"));
  }
  record.parameters.erase("updates");
  ASSERT_FALSE(OptionsOf("refit.json", record));
}

TEST(RefitOptions, UnknownStepsAreRefused) {
  const Status checked = CheckSteps("--steps", {"ridge", "bake"});
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().message,
            "--steps: expected ridge, refill, router, tune, found \"bake\"");
  ASSERT_FALSE(CheckSteps("--steps", {}));
}

TEST(RefitOptions, ParametersThatAreNotNumbersAreNamed) {
  for (const char* name : {"lambda", "fold", "memory", "top_k"}) {
    RefitRecord record;
    RecordOptions({}, record);
    record.parameters[name] = "many";
    const auto read = OptionsOf("refit.json", record);
    ASSERT_FALSE(read);
    EXPECT_THAT(read.error().message, HasSubstr("expected a number, found \"many\""));
    EXPECT_THAT(read.error().message, HasSubstr(name));
    record.parameters.erase(name);
    ASSERT_FALSE(OptionsOf("refit.json", record));
  }
}

}  // namespace
}  // namespace moepack::runtime
