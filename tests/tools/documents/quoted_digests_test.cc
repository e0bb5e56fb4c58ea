// The digests quoted in the documents are those that their examples give.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "libshard/base/text/regex.h"
#include "tests/tools/run_moepack.h"

namespace moepack::cli {
namespace {

std::set<std::string> DigestsIn(const std::string& text, bool of_damaged_files) {
  // Digests and versions have at least this many digits; offsets and hex dumps have fewer.
  const Regex regex = Regex::Compile("(found )?\\b[0-9a-f]{16,64}\\b").value();
  Regex::Matcher matcher(regex);
  std::set<std::string> digests;
  size_t done = 0;
  while (const auto match = matcher.Find(text, done).value()) {
    done = match->end;
    std::string digest = text.substr(match->begin, match->end - match->begin);
    const bool damaged = digest.starts_with("found ");
    if (damaged) digest.erase(0, std::string_view("found ").size());
    const bool made_up = digest.find_first_not_of('0') == std::string::npos;
    if ((of_damaged_files || !damaged) && !made_up) digests.insert(digest);
  }
  return digests;
}

TEST(QuotedDigests, MatchWhatTheExamplesWrite) {
  const Workspace workspace;
  std::set<std::string> written;
  for (const char* options : {"--overlay-file fixtures/tiny-overlay.json", "--quantize Q4_K_M",
                              "--overlay-file fixtures/tiny-overlay.json --quantize Q4_K_M"}) {
    const ToolRun run = workspace.Moepack(
        std::string("build fixtures/tiny-moe --groups 3 --no-verify --force -o out ") + options);
    ASSERT_EQ(run.status, 0) << run.err;
    written.merge(DigestsIn(ReadFile(workspace / "out/distribution.json"), true));
    written.merge(DigestsIn(run.out, true));  // that of distribution.json itself
  }
  ASSERT_GT(written.size(), 100u);
  size_t quoted = 0;
  for (const char* page : {"README.md", "docs/architecture.md", "docs/cli.md", "docs/planning.md",
                           "docs/distribution-format.md", "docs/runtime-shim.md"}) {
    const std::string text = ReadFile(std::filesystem::path(MOEPACK_SOURCE_DIR) / page);
    for (const std::string& digest : DigestsIn(text, false)) {
      ++quoted;
      const auto match = written.lower_bound(digest);
      EXPECT_TRUE(match != written.end() && match->starts_with(digest)) << page << ": " << digest;
    }
  }
  EXPECT_GT(quoted, 20u);
}

}  // namespace
}  // namespace moepack::cli
