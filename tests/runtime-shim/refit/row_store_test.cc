#include "runtime-shim/refit/row_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "fixtures/temp_dir.h"

namespace moepack::runtime {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

RowStore MakeStore(uint64_t count, uint32_t width, RowRoom& room) {
  auto store = RowStore::Make(count, width, room);
  EXPECT_TRUE(store) << store.error().message;
  return std::move(*store);
}

std::vector<float> ReadAll(const RowStore& store) {
  std::vector<float> values(store.count() * store.width());
  EXPECT_TRUE(store.Read(0, values));
  return values;
}

class RowStoreIn : public testing::TestWithParam<bool> {
 protected:
  RowStoreIn() { room_ = {GetParam() ? 1000 : uint64_t{0}, directory_.path(), 0}; }
  fixtures::TempDir directory_;
  RowRoom room_;
};

TEST_P(RowStoreIn, MemoryOrFileHoldsTheSameRows) {
  RowStore store = MakeStore(3, 2, room_);
  EXPECT_EQ(store.in_memory(), GetParam());
  EXPECT_THAT(ReadAll(store), ElementsAre(0, 0, 0, 0, 0, 0));
  ASSERT_TRUE(store.Write(1, std::vector<float>{1, 2, 3, 4}));
  EXPECT_THAT(ReadAll(store), ElementsAre(0, 0, 1, 2, 3, 4));
  const std::vector<uint32_t> rows = {2, 0};
  ASSERT_TRUE(store.ScatterAdd(rows, std::vector<float>{10, 20, 30, 40}));
  std::vector<float> gathered(4);
  ASSERT_TRUE(store.Gather(rows, gathered));
  EXPECT_THAT(gathered, ElementsAre(13, 24, 30, 40));
}

TEST_P(RowStoreIn, UsesTheMemoryOrSpills) {
  const RowStore store = MakeStore(3, 2, room_);
  EXPECT_EQ(room_.memory, GetParam() ? 976u : 0u);
  EXPECT_EQ(room_.spilled, GetParam() ? 0u : 24u);
}

INSTANTIATE_TEST_SUITE_P(Both, RowStoreIn, testing::Bool());

TEST(RowStore, ScratchFilesHaveNoName) {
  const fixtures::TempDir directory;
  RowRoom room{0, directory.path(), 0};
  const RowStore store = MakeStore(3, 2, room);
  EXPECT_TRUE(std::filesystem::is_empty(directory.path()));
}

TEST(RowStore, NamesAMissingDirectory) {
  RowRoom room{0, "/nowhere/scratch", 0};
  const auto store = RowStore::Make(3, 2, room);
  ASSERT_FALSE(store);
  EXPECT_THAT(store.error().message, HasSubstr("/nowhere/scratch: cannot make a scratch file"));
}

TEST(RowStore, FullDiskIsAnError) {
  const fixtures::TempDir directory;
  RowRoom room{0, directory.path(), 0};
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit usual = {};
  getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit small = {8, usual.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto store = RowStore::Make(3, 2, room);
  setrlimit(RLIMIT_FSIZE, &usual);
  std::signal(SIGXFSZ, before);
  ASSERT_FALSE(store);
  EXPECT_EQ(store.error().code, Code::kIo);
  EXPECT_THAT(store.error().message, HasSubstr("cannot make room in the scratch file"));
}

// A small file system that fills up before all rows are written. It reports no size to check
// beforehand.
enum class Filling : uint8_t { kNoMount, kNothing, kFull, kOther };

Filling WriteUntilFull(const std::filesystem::path& directory) {
  const bool own = ::unshare(CLONE_NEWNS) == 0 || ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
  if (!own || ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("none", directory.c_str(), "tmpfs", 0, "size=64k") != 0)
    return Filling::kNoMount;
  constexpr uint32_t kWidth = 1024;  // a row is a page
  RowRoom room{0, directory, 0};
  auto store = RowStore::Make(64, kWidth, room);
  if (!store) return Filling::kOther;
  const std::vector<float> row(kWidth, 1);
  for (uint64_t i = 0; i < store->count(); ++i) {
    const Status written = store->Write(i, row);
    if (written) continue;
    const bool clear = i > 0 && written.error().code == Code::kIo &&
                       written.error().hint.find("free some space") != std::string::npos;
    return clear ? Filling::kFull : Filling::kOther;
  }
  return Filling::kNothing;
}

TEST(RowStore, DiskThatFillsUpLaterIsAnErrorWithAHint) {
  const fixtures::TempDir directory;
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(static_cast<int>(WriteUntilFull(directory.path())));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  const auto filling = static_cast<Filling>(WEXITSTATUS(status));
  if (filling == Filling::kNoMount) GTEST_SKIP() << "no file system may be mounted: 0 checked";
  EXPECT_EQ(filling, Filling::kFull);
}

}  // namespace
}  // namespace moepack::runtime
