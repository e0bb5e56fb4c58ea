#include "manifest/registry/server/upload_journal.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fixtures/temp_dir.h"
#include "libshard/base/text/text.h"

namespace moepack::registry {
namespace {

const std::string kJournalDigest = "sha256:" + std::string(64, 'a');

class UploadJournalTest : public testing::Test {
 protected:
  UploadJournal Of(const std::string& host = "h", const std::string& repository = "a/b") const {
    return UploadJournal((dir_ / "journal").string(), host, repository);
  }
  std::filesystem::path TheFile() const {
    std::filesystem::path only;
    for (const auto& entry : std::filesystem::directory_iterator(dir_ / "journal")) {
      EXPECT_TRUE(only.empty()) << "expected a single file in the journal";
      only = entry.path();
    }
    return only;
  }

  fixtures::TempDir dir_;
};

TEST_F(UploadJournalTest, AnEntryIsFoundUntilItIsForgotten) {
  EXPECT_FALSE(Of().Find(kJournalDigest));
  ASSERT_TRUE(Of().Note(kJournalDigest, {"https://h/v2/a/b/blobs/uploads/1?_state=x", 100}));
  ASSERT_TRUE(Of().Note(kJournalDigest, {"https://h/v2/a/b/blobs/uploads/1?_state=y", 200}));
  const auto entry = Of().Find(kJournalDigest);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->location, "https://h/v2/a/b/blobs/uploads/1?_state=y");
  EXPECT_EQ(entry->offset, 200u);
  Of().Forget(kJournalDigest);
  EXPECT_FALSE(Of().Find(kJournalDigest));
}

TEST_F(UploadJournalTest, OnlyTheUserMayReadIt) {
  const mode_t mask = umask(0);
  ASSERT_TRUE(Of().Note(kJournalDigest, {"https://h/x", 1}));
  umask(mask);
  struct stat info = {};
  ASSERT_EQ(stat(TheFile().c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 0777, 0600u);
}

TEST_F(UploadJournalTest, DistinguishesHostsRepositoriesAndBlobs) {
  ASSERT_TRUE(Of().Note(kJournalDigest, {"https://h/x", 1}));
  EXPECT_FALSE(Of("other").Find(kJournalDigest));
  EXPECT_FALSE(Of("h", "a/c").Find(kJournalDigest));
  EXPECT_FALSE(Of().Find("sha256:" + std::string(64, 'b')));
}

TEST_F(UploadJournalTest, IgnoresInvalidEntries) {
  ASSERT_TRUE(Of().Note(kJournalDigest, {"https://h/x", 1}));
  const std::filesystem::path file = TheFile();
  const std::string good = fixtures::ReadFile(file);
  std::string other = good;
  other.replace(other.find("\"a/b\""), 5, "\"a/c\"");
  for (const std::string& text :
       {std::string(), std::string("[]"), std::string("{\"host\":"), std::string("{\"offset\":1}"),
        other, std::string(1 << 20, ' ')}) {
    fixtures::WriteFile(file, text);
    EXPECT_FALSE(Of().Find(kJournalDigest)) << text.substr(0, 100);
  }
  fixtures::WriteFile(file, good);
  EXPECT_TRUE(Of().Find(kJournalDigest));
}

TEST_F(UploadJournalTest, KeepsNothingWithoutADirectory) {
  const UploadJournal none("", "h", "a/b");
  EXPECT_TRUE(none.Note(kJournalDigest, {"https://h/x", 1}));
  EXPECT_FALSE(none.Find(kJournalDigest));
  none.Forget(kJournalDigest);
}

TEST_F(UploadJournalTest, FailureToMakeTheDirectoryIsAnError) {
  fixtures::WriteFile(dir_ / "journal", "a file");
  const Status noted = Of().Note(kJournalDigest, {"https://h/x", 1});
  ASSERT_FALSE(noted);
  EXPECT_NE(noted.error().message.find("journal"), std::string::npos);
  EXPECT_EQ(noted.error().message.find("https://h/x"), std::string::npos);
}

}  // namespace
}  // namespace moepack::registry
