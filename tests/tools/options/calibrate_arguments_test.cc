#include "tools/options/calibrate_arguments.h"

#include <gtest/gtest.h>

namespace moepack::cli {
namespace {

using Words = std::vector<std::string>;

TEST(CalibrateArguments, ARunIsRecordedWithItsTextsAndWhatWasChanged) {
  CalibrateArguments arguments;
  arguments.texts.texts = {"there/a.jsonl", "b.txt"};
  EXPECT_EQ(RecordCalibrateOptions(arguments),
            (Words{"--calibrate", "a.jsonl", "--calibrate", "b.txt"}));
  arguments.texts.texts = {"a.jsonl"};
  arguments.texts.tokens = {"1,2,3"};
  arguments.texts.bucket = "code";
  arguments.options.tokens = 1000;
  arguments.options.context = 128;
  arguments.options.fold = 4;
  arguments.options.least_tokens = 8;
  arguments.options.shrink = 0.5;
  // These change no byte.
  arguments.options.memory = 1u << 30;
  arguments.options.scratch = "/scratch";
  arguments.held_out = {"held-out.txt"};
  arguments.store = "there/store";
  EXPECT_EQ(RecordCalibrateOptions(arguments),
            (Words{"--calibrate", "a.jsonl", "--calibrate-tokens", "1,2,3", "--calibrate-bucket",
                   "code", "--calibrate-most-tokens", "1000", "--calibrate-context", "128",
                   "--calibrate-keep-back", "4", "--calibrate-least-tokens", "8",
                   "--calibrate-shrink", "0.5"}));
}

// Its name often is that of the output, and no byte may depend on that.
TEST(CalibrateArguments, AStoreAloneIsRecordedWithoutItsName) {
  CalibrateArguments arguments;
  arguments.store = "there/store";
  EXPECT_EQ(RecordCalibrateOptions(arguments), Words{"--calibrated-store"});
}

}  // namespace
}  // namespace moepack::cli
