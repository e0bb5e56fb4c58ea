#include "manifest/registry/sign/hash_directory.h"

#include <gmock/gmock.h>

#include <filesystem>

#include "libshard/base/digest.h"
#include "tests/manifest/registry/sign/sample_keys.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;
using fixtures::ReadFile;
using fixtures::WriteFile;
using testing::ElementsAre;
using testing::HasSubstr;

class HashingDirectories : public testing::Test {
 protected:
  void Write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((dir_ / name).parent_path());
    WriteFile(dir_ / name, bytes);
  }
  std::vector<std::string> Names(const std::vector<std::string>& ignored = {}) const {
    std::vector<std::string> names;
    const auto hashed = HashDirectory(dir_.path().string(), ignored, {});
    if (!hashed) return {hashed.error().message};
    for (const FileDigest& file : hashed->files) names.push_back(file.name);
    return names;
  }
  fixtures::TempDir dir_;
};

TEST_F(HashingDirectories, OrdersFilesByTheComponentsOfTheirNames) {
  for (const char* name : {"a-b/x", "a/x", "a/b/c", "a.b", "B", ".hidden", "a/x-y"})
    Write(name, name);
  EXPECT_THAT(Names(), ElementsAre(".hidden", "B", "a/b/c", "a/x", "a/x-y", "a-b/x", "a.b"));
  uint64_t done = 0, total = 0;
  HashOptions options;
  options.jobs = 2;
  options.progress = [&](uint64_t now, uint64_t all) { done = now, total = all; };
  const auto hashed = HashDirectory(dir_.path().string(), {}, options);
  ASSERT_TRUE(hashed) << hashed.error().message;
  EXPECT_EQ(hashed->files[2].sha256, Sha256Hex(std::string_view("a/b/c")));
  EXPECT_EQ(hashed->bytes, 29u);
  EXPECT_EQ(done, 29u);
  EXPECT_EQ(total, 29u);
}

TEST_F(HashingDirectories, IgnoredEntriesMayBeAnything) {
  for (const char* name : {"model.sig", "model.sig.txt", ".git/config", ".gitignore", "x"})
    Write(name, "x");
  fs::create_symlink("/", dir_ / "link");
  EXPECT_THAT(Names({".git", "model.sig", "link"}),
              ElementsAre(".gitignore", "model.sig.txt", "x"));
  EXPECT_TRUE(IsIgnored("a/b", {"x", "a"}));
  EXPECT_FALSE(IsIgnored("ab", {"a"}));
  EXPECT_FALSE(IsIgnored("a", {"", ".", "a/b"}));
}

TEST_F(HashingDirectories, LinksPipesAndStrangeNamesAreRefused) {
  Write("file", "x");
  fs::create_symlink("file", dir_ / "link");
  EXPECT_THAT(Names()[0], HasSubstr("/link: expected a file, found a link"));
  fs::remove(dir_ / "link");
  fs::create_directory_symlink("/", dir_ / "directory");
  EXPECT_THAT(Names()[0], HasSubstr("/directory: expected a file, found a link"));
  fs::remove(dir_ / "directory");
  ASSERT_TRUE(ShellRuns(dir_.path(), "rm -f log; mkfifo pipe"));
  fs::remove(dir_ / "log");
  EXPECT_THAT(Names()[0], HasSubstr("/pipe: expected a file, found something else"));
  fs::remove(dir_ / "pipe");
  for (const char* name : {"a\nb", "a\\b", "\xff"}) {
    WriteFile(dir_ / name, "x");
    EXPECT_THAT(Names()[0], HasSubstr(": name: expected UTF-8 without control"));
    fs::remove(dir_ / name);
  }
  EXPECT_THAT(Names(), ElementsAre("file"));
  const auto absent = HashDirectory((dir_ / "none").string(), {}, {});
  ASSERT_FALSE(absent);
  EXPECT_EQ(absent.error().code, Code::kNotFound);
}

// The digest of the list is recomputed with programs that every system has.
TEST_F(HashingDirectories, TheRootDigestMatchesAShellCommand) {
  for (const char* name : {"a-b/x", "a/x", "a/b/c", "a.b", "B"}) Write(name, name);
  const auto hashed = HashDirectory(dir_.path().string(), {}, {});
  ASSERT_TRUE(hashed) << hashed.error().message;
  const fixtures::TempDir logs;
  ASSERT_TRUE(ShellRuns(logs.path(),
                        "cd '" + dir_.path().string() +
                            "' && find * -type f | tr / '\\001' | LC_ALL=C sort | tr '\\001' / | "
                            "xargs sha256sum | cut -c 1-64 | tr -d '\\n' | sed 's/../\\\\x&/g' | "
                            "xargs -0 env printf | sha256sum | cut -c 1-64"));
  EXPECT_EQ(ReadFile(logs / "log"), RootDigest(hashed->files) + "\n");
  EXPECT_EQ(RootDigest({}), Sha256Hex(std::string_view()));
}

}  // namespace
}  // namespace moepack::registry
