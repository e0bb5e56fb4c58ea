#include "tools/base/exit_code.h"

#include <gtest/gtest.h>

#include <set>

namespace moepack::cli {
namespace {

TEST(ExitCode, EveryKindOfErrorHasItsDocumentedStatus) {
  EXPECT_EQ(ExitCode(Code::kInvalidArgument), 2);
  EXPECT_EQ(ExitCode(Code::kCorrupt), 3);
  EXPECT_EQ(ExitCode(Code::kUnsupported), 4);
  EXPECT_EQ(ExitCode(Code::kIo), 5);
  EXPECT_EQ(ExitCode(Code::kNotFound), 5);
  EXPECT_EQ(ExitCode(Code::kMismatch), 6);
  EXPECT_EQ(ExitCode(Code::kUnavailable), 7);
  EXPECT_EQ(ExitCode(Code::kInterrupted), 130);
}

TEST(ExitCode, EveryStatusIsExplainedOnce) {
  std::set<int> explained;
  for (const ExitMeaning& exit : kExitMeanings) EXPECT_TRUE(explained.insert(exit.status).second);
  EXPECT_EQ(explained, (std::set<int>{0, 1, 2, 3, 4, 5, 6, 7, 130}));
}

}  // namespace
}  // namespace moepack::cli
