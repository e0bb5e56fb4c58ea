// A distribution written by `publish --to-dir`, on a local Hub: a node pulls only its own files.
#include <gmock/gmock.h>

#include <set>

#include "libshard/base/digest.h"
#include "tests/remote/support/fake_hub.h"
#include "tests/remote/support/remote_commands.h"

namespace moepack::remote {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

class FilesOnAHub : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(Run("build fixtures/tiny-moe --groups 3 --overlay-file fixtures/tiny-overlay.json "
                  "--quantize Q4_K_M -o out"),
              0);
    ASSERT_EQ(Run("publish out --to-dir upload"), 0);
    hub_.page_size = 100;
    for (const auto& entry : fs::recursive_directory_iterator(workspace_ / "upload")) {
      if (!entry.is_regular_file()) continue;
      const std::string name = fs::relative(entry.path(), workspace_ / "upload");
      // As .gitattributes says.
      hub_.Add(name, cli::ReadFile(entry.path()), name.ends_with(".gguf"));
    }
  }
  int Run(const std::string& arguments) {
    last_ = workspace_.Moepack(arguments);
    return last_.status;
  }
  // The weights that were requested from the second server, by their names in the distribution.
  std::set<std::string> FetchedWeights() {
    std::map<std::string, std::string> names;
    for (const auto& entry : fs::recursive_directory_iterator(workspace_ / "upload")) {
      if (!entry.is_regular_file()) continue;
      names["/blobs/" + Sha256Hex(cli::ReadFile(entry.path()))] =
          fs::relative(entry.path(), workspace_ / "upload");
    }
    std::set<std::string> fetched;
    for (const FakeRequest& request : hub_.cdn().requests()) fetched.insert(names[request.path]);
    return fetched;
  }

  cli::Workspace workspace_;
  FakeHub hub_;
  cli::ToolRun last_;
  ScopedVariable endpoint_{"HF_ENDPOINT", hub_.endpoint()}, home_{"HF_HOME", workspace_ / "hf"},
      token_{"HF_TOKEN", ""};
};

TEST_F(FilesOnAHub, ANodeFetchesOnlyItsOwnFiles) {
  ASSERT_EQ(Run("pull hf://owner/model --group 1 -o pulled --assemble node-1"), 0) << last_.err;
  EXPECT_THAT(
      FetchedWeights(),
      UnorderedElementsAre("head/head.gguf", "trunk/trunk.gguf", "routers/routers.gguf",
                           "groups/001/experts.gguf", "overlays/generalists-1/experts.gguf"));
  EXPECT_EQ(Run("verify pulled --group 1 --strict"), 0) << last_.err;
  EXPECT_EQ(Run("assemble out --group 1 -o node-here"), 0);
  EXPECT_EQ(ContentOf(workspace_ / "node-1"), ContentOf(workspace_ / "node-here"));
}

// Every file comes from the commit that the branch resolved to.
TEST_F(FilesOnAHub, PinsTheCommit) {
  ASSERT_EQ(Run("pull hf://owner/model@main --group 0 -o pulled"), 0) << last_.err;
  for (const FakeRequest& request : hub_.hub().requests()) {
    if (request.path.find("/resolve/") == std::string::npos) continue;
    EXPECT_THAT(request.path, HasSubstr("/resolve/" + hub_.commit + "/"));
  }
}

TEST_F(FilesOnAHub, RefusesBytesThatDifferFromThePromisedOnes) {
  std::string bytes = cli::ReadFile(workspace_ / "upload/groups/001/experts.gguf");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  hub_.Add("groups/001/experts.gguf", bytes, true);
  EXPECT_EQ(Run("pull hf://owner/model --group 1 -o pulled"), 3) << last_.err;
  EXPECT_THAT(last_.err, HasSubstr("groups/001/experts.gguf"));
  EXPECT_FALSE(fs::exists(workspace_ / "pulled"));
  EXPECT_EQ(Run("pull hf://owner/model --group 0 -o pulled"), 0) << last_.err;
}

}  // namespace
}  // namespace moepack::remote
