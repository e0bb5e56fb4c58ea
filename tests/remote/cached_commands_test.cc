// moepack --cache: a second run fetches nothing that the first one fetched, and gives the same
// bytes, whatever happens to the directory in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <vector>

#include "libshard/base/text/text.h"
#include "tests/remote/support/fake_hub.h"
#include "tests/remote/support/fake_s3.h"
#include "tests/remote/support/remote_commands.h"

namespace moepack::remote {
namespace {

using cli::ReadFile;
using cli::ToolRun;
using cli::Workspace;
using testing::HasSubstr;
using testing::Not;

namespace fs = std::filesystem;

constexpr const char* kTiny = "fixtures/tiny-moe";

class CachedCommands : public testing::Test {
 protected:
  void SetUp() override {
    server_.SetListing(true);
    server_.AddDirectory("/tiny-moe/", workspace_ / kTiny);
    local_ = Build(kTiny, "near");
    ASSERT_EQ(local_.status, 0) << local_.err;
  }
  std::string address() const { return server_.origin() + "/tiny-moe/"; }
  ToolRun Build(const std::string& source, const std::string& out,
                const std::string& more = "") const {
    return workspace_.Moepack("shard-experts " + source + " --groups 3 --force -o " + out + " " +
                              more);
  }
  // Builds from the address with the cache, expects the same output as from the directory, and
  // returns how many bytes of weights `server` sent.
  uint64_t Cached(const std::string& source, FaultServer& server, const std::string& more = "") {
    server.Forget();
    run_ = Build(source, "far", "--cache cache " + more);
    EXPECT_EQ(run_.status, 0) << run_.err;
    EXPECT_TRUE(Content("far") == Content("near"));
    return WeightsOf(server);
  }
  uint64_t Cached(const std::string& more = "") { return Cached(address(), server_, more); }
  static uint64_t WeightsOf(FaultServer& server) {
    uint64_t bytes = 0;
    for (const FakeRequest& request : server.requests()) {
      const bool weights =
          request.path.ends_with(".safetensors") || request.path.starts_with("/blobs/");
      if (weights && request.Range()) bytes += request.Range()->second - request.Range()->first + 1;
    }
    return bytes;
  }
  std::string Content(const std::string& directory) const {
    return ContentOf(workspace_ / directory);
  }
  std::map<std::string, fs::path> FilesIn(const std::string& directory) const {
    std::map<std::string, fs::path> files;
    const fs::path root = workspace_ / directory;
    for (const auto& entry : fs::recursive_directory_iterator(root))
      if (entry.is_regular_file()) files[fs::relative(entry.path(), root)] = entry.path();
    return files;
  }
  uint64_t BytesIn(const std::string& directory) const {
    uint64_t bytes = 0;
    for (const auto& [name, path] : FilesIn(directory)) bytes += fs::file_size(path);
    return bytes;
  }

  Workspace workspace_;
  FaultServer server_;
  ToolRun local_, run_;
  ScopedVariable home_{"HF_HOME", workspace_ / "hf"};
};

// Opening requests one byte of each of three files, and the end of the run checks whether it is
// still the same.
constexpr uint64_t kQuestions = 6;

TEST_F(CachedCommands, ASecondRunFromAWebServerFetchesNoWeights) {
  EXPECT_GT(Cached(), 20u << 20);
  EXPECT_LE(Cached(), kQuestions);
  EXPECT_THAT(run_.err, HasSubstr(" from the cache, of 21.2 MB"));
}

TEST_F(CachedCommands, ASecondRunFromTheHubRequestsNoWeights) {
  FakeHub hub;
  hub.AddDirectory(workspace_ / kTiny);
  const ScopedVariable endpoint("HF_ENDPOINT", hub.endpoint());
  EXPECT_GT(Cached("hf://owner/model", hub.cdn()), 20u << 20);
  EXPECT_EQ(Cached("hf://owner/model", hub.cdn()), 0u);
  EXPECT_EQ(hub.cdn().requests().size(), 0u);
  hub.Push("f" + hub.commit.substr(1));  // a readme, for example
  server_.Forget();
  run_ = Build("hf://owner/model", "other", "--cache cache");
  EXPECT_EQ(run_.status, 0) << run_.err;
  EXPECT_EQ(hub.cdn().requests().size(), 0u);
}

TEST_F(CachedCommands, ASecondRunFromS3OnlyAsksWhetherFilesChanged) {
  FakeS3 s3;
  s3.AddDirectory("models/tiny/", workspace_ / kTiny);
  const ScopedVariable region("AWS_REGION", "us-east-1");
  const std::string source = "s3://bucket/models/tiny --endpoint " + s3.endpoint();
  EXPECT_GT(Cached(source, s3.server()), 20u << 20);
  EXPECT_LE(Cached(source, s3.server()), kQuestions / 2);
}

TEST_F(CachedCommands, FetchesOnlyWhatIsMissing) {
  ASSERT_EQ(Build(address(), "part", "--only group:1 --cache cache").status, 0);
  const uint64_t part = BytesIn("cache");
  const uint64_t rest = Cached();
  EXPECT_GT(part, 1u << 20);
  EXPECT_LE(part + rest, 22u << 20);
  EXPECT_GE(part + rest, 20u << 20);
}

TEST_F(CachedCommands, RefetchesAChangedFile) {
  Cached();
  const std::string name = "model-00002-of-00003.safetensors";
  const fs::path file = workspace_ / kTiny / name;
  std::string bytes = ReadFile(file);
  bytes[bytes.size() - 5] ^= 1;
  cli::WriteAll(file, bytes);
  server_.Add("/tiny-moe/" + name, bytes);
  ASSERT_EQ(Build(kTiny, "near").status, 0);
  const uint64_t again = Cached();
  EXPECT_GT(again, fs::file_size(file) / 2);
  // The rows of routers are read first, and once more together with the bytes around them.
  EXPECT_LE(again, fs::file_size(file) + (100u << 10) + kQuestions);
}

TEST_F(CachedCommands, RefetchesDamagedFiles) {
  Cached();
  const auto files = FilesIn("cache");
  ASSERT_GT(files.size(), 10u);
  uint64_t spoiled = 0;
  int count = 0;
  for (const auto& [name, path] : files) {
    if (++count % 3 == 0) continue;
    std::string bytes = ReadFile(path);
    spoiled += bytes.size();
    if (count % 3 == 1) bytes.back() = static_cast<char>(bytes.back() ^ 1);
    if (count % 3 == 2) bytes.resize(bytes.size() / 2);
    cli::WriteAll(path, bytes);
  }
  const uint64_t again = Cached();
  EXPECT_GT(again, spoiled / 2);
  EXPECT_LE(again, spoiled + spoiled / 100);  // small holes between two are fetched with them
  EXPECT_LE(Cached(), kQuestions);
}

TEST_F(CachedCommands, DoesNotFollowALinkInPlaceOfAFile) {
  Cached();
  const auto files = FilesIn("cache");
  const fs::path victim = workspace_ / "victim";
  const auto larger = [](const auto& a, const auto& b) {
    return fs::file_size(a.second) < fs::file_size(b.second);
  };
  const fs::path range = std::max_element(files.begin(), files.end(), larger)->second;
  fs::rename(range, victim);
  fs::create_symlink(victim, range);
  const std::string before = ReadFile(victim);
  EXPECT_GT(Cached(), kQuestions);
  EXPECT_EQ(ReadFile(victim), before);
}

TEST_F(CachedCommands, TheCacheMayBeDeletedDuringARun) {
  Cached();
  std::atomic<int> count = 0;
  const auto remove = [&] {
    std::error_code ignored;  // a file that was written meanwhile
    fs::remove_all(workspace_ / "cache", ignored);
  };
  server_.SetFault([&](const FakeRequest&, FakeAnswer&) {
    if (++count == 4) remove();
  });
  Cached();
  remove();
  server_.SetFault([&](const FakeRequest&, FakeAnswer&) {
    if (++count % 10 == 0) remove();
  });
  Cached();
}

TEST_F(CachedCommands, ACacheThatCannotBeWrittenIsAWarning) {
  cli::WriteAll(workspace_ / "cache", "a file in the way");
  Cached();
  EXPECT_THAT(run_.err, HasSubstr("warning: cache: "));
  EXPECT_THAT(run_.err, HasSubstr("continuing without the cache"));
  fs::remove(workspace_ / "cache");
  // /dev/full is not a directory, and not even root may write to /proc.
  run_ = Build(address(), "far", "--cache /proc/cache");
  EXPECT_EQ(run_.status, 0) << run_.err;
  EXPECT_THAT(run_.err, HasSubstr("warning: /proc/cache: "));
}

TEST_F(CachedCommands, TheCacheStaysBelowItsLimit) {
  Cached("--cache-size 10M");
  EXPECT_LE(BytesIn("cache"), 10'000'000u);
  EXPECT_GT(BytesIn("cache"), 2'000'000u);
  Cached("--cache-size 10M");
  EXPECT_LE(BytesIn("cache"), 10'000'000u);
}

TEST_F(CachedCommands, SeveralProcessesShareTheCache) {
  std::vector<std::jthread> runs;
  std::vector<ToolRun> ended(3);
  for (size_t i = 0; i < ended.size(); ++i) {
    runs.emplace_back([&, i] {
      // Separate files for its output.
      const Workspace own;
      ended[i] = own.Moepack("shard-experts " + address() +
                             " --groups 3 --cache-size 12M -o far --cache " +
                             (workspace_ / "cache").string());
      EXPECT_TRUE(ContentOf(own / "far") == Content("near"));
    });
  }
  runs.clear();
  for (const ToolRun& run : ended) EXPECT_EQ(run.status, 0) << run.err;
  Cached("--cache-size 12M");
  EXPECT_LE(BytesIn("cache"), 12'000'000u);
}

TEST_F(CachedCommands, NoFileNameOrFileContainsSecrets) {
  const std::string source =
      "'http://me:s3cret@" + server_.origin().substr(7) + "/tiny-moe/?token=t0ken'";
  const ToolRun run = workspace_.Moepack("list-tensors " + source + " --cache cache");
  EXPECT_EQ(run.status, 0) << run.err;
  ASSERT_FALSE(FilesIn("cache").empty());
  const std::string all = Content("cache");
  for (const char* secret : {"s3cret", "t0ken", "127.0.0.1"})
    EXPECT_THAT(all, Not(HasSubstr(secret)));
}

TEST_F(CachedCommands, DoesNotCacheAFileWithoutAValidator) {
  server_.SetFault([](const FakeRequest&, FakeAnswer& answer) {
    answer.Remove("ETag");
    answer.Remove("Last-Modified");
  });
  EXPECT_GT(Cached(), 20u << 20);
  EXPECT_EQ(BytesIn("cache"), 0u);
  EXPECT_GT(Cached(), 20u << 20);
}

TEST_F(CachedCommands, CacheSizeNeedsACache) {
  const ToolRun run = workspace_.Moepack("list-tensors " + address() + " --cache-size 10M");
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("--cache-size needs --cache"));
}

}  // namespace
}  // namespace moepack::remote
