// Digests that the documents quote are those that their examples give.
#include <gmock/gmock.h>

#include <algorithm>
#include <regex>
#include <set>

#include "tests/tools/run_moepack.h"

namespace cli {
namespace {

// Digests and versions have at least this many digits; offsets and hex dumps have fewer.
const std::regex& Digest() {
  static const std::regex digest("(found )?\\b([0-9a-f]{16,64})\\b");
  return digest;
}

std::set<std::string> DigestsIn(const std::string& text, bool of_damaged_files) {
  std::set<std::string> digests;
  for (std::sregex_iterator at(text.begin(), text.end(), Digest()), end; at != end; ++at) {
    const bool damaged = (*at)[1].matched;
    const std::string digest = (*at)[2];
    const bool made_up = digest.find_first_not_of('0') == std::string::npos;
    if ((of_damaged_files || !damaged) && !made_up) digests.insert(digest);
  }
  return digests;
}

TEST(QuotedDigests, MatchWhatTheExamplesWrite) {
  const Workspace workspace;
  std::set<std::string> written;
  for (const char* options : {"--overlay-file fixtures/tiny-overlay.json", "--quantize Q4_K_M"}) {
    const ToolRun run = workspace.Moepack(
        std::string("build fixtures/tiny-moe --groups 3 --no-verify --force -o out ") + options);
    ASSERT_EQ(run.status, 0) << run.err;
    written.merge(DigestsIn(ReadAll(workspace / "out/distribution.json"), true));
    written.merge(DigestsIn(run.out, true));  // that of distribution.json itself
  }
  ASSERT_GT(written.size(), 100u);
  size_t quoted = 0;
  for (const char* page : {"README.md", "docs/architecture.md", "docs/cli.md", "docs/plan-files.md",
                           "docs/distribution-format.md", "docs/runtime-shim.md"}) {
    const std::string text = ReadAll(std::filesystem::path(MOEPACK_SOURCE_DIR) / page);
    for (const std::string& digest : DigestsIn(text, false)) {
      ++quoted;
      const auto match = written.lower_bound(digest);
      EXPECT_TRUE(match != written.end() && match->starts_with(digest)) << page << ": " << digest;
    }
  }
  EXPECT_GT(quoted, 20u);
}

}  // namespace
}  // namespace cli
