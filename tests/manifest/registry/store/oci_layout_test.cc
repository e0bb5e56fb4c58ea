#include "manifest/registry/store/oci_layout.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <future>
#include <memory>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/parallel.h"
#include "manifest/registry/artifact/reference.h"

namespace moepack::registry {
namespace {

namespace fs = std::filesystem;
using manifest::LinkKind;
using testing::HasSubstr;

class OciLayoutTest : public testing::Test {
 protected:
  OciLayoutTest() {
    fixtures::WriteFile(dir_ / "file", "some bytes");
    fs::permissions(dir_ / "file", fs::perms(0640));
  }
  std::string Path() const { return (dir_ / "layout").string(); }
  BlobRecord Blob(const std::string& bytes) const {
    return {"type", DigestOf(Sha256Hex(bytes)), bytes.size()};
  }
  fs::path BlobPath(const std::string& bytes) const {
    return dir_ / ("layout/blobs/sha256/" + Sha256Hex(bytes));
  }
  mode_t ModeOf(const fs::path& path) const {
    struct stat info = {};
    EXPECT_EQ(stat(path.c_str(), &info), 0);
    return info.st_mode & 0777;
  }
  OciLayout Made() const {
    auto layout = OciLayout::OpenOrMake(Path());
    if (!layout) throw std::runtime_error(layout.error().message);
    return *std::move(layout);
  }
  Result<Added> Add(OciLayout& layout, LinkKind link,
                    const std::string& stated = "some bytes") const {
    return layout.AddFile(LocalTree(dir_.path()), "file", Blob(stated), link, {});
  }
  fixtures::TempDir dir_;
};

TEST_F(OciLayoutTest, AnEmptyLayoutIsValid) {
  { const OciLayout layout = Made(); }
  EXPECT_EQ(fixtures::ReadFile(dir_ / "layout/oci-layout"), R"({"imageLayoutVersion":"1.0.0"})");
  EXPECT_EQ(fixtures::ReadFile(dir_ / "layout/index.json"),
            R"({"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json",)"
            R"("manifests":[]})");
  const auto opened = OciLayout::Open(Path());
  ASSERT_TRUE(opened) << opened.error().message;
  EXPECT_TRUE(opened->index().entries().empty());
}

TEST_F(OciLayoutTest, ACopyIsReadOnlyAndAHardLinkKeepsTheModeOfItsFile) {
  OciLayout layout = Made();
  EXPECT_EQ(Add(layout, LinkKind::kCopy)->how, "copy");
  EXPECT_EQ(ModeOf(BlobPath("some bytes")), 0444u);
  fs::remove(BlobPath("some bytes"));
  EXPECT_EQ(Add(layout, LinkKind::kHardlink)->how, "hardlink");
  EXPECT_EQ(fs::hard_link_count(dir_ / "file"), 2u);
  EXPECT_EQ(ModeOf(dir_ / "file"), 0640u);
  EXPECT_TRUE(fs::is_empty(dir_ / "layout/ingest"));
}

TEST_F(OciLayoutTest, DoesNotAddAFileWithOtherBytes) {
  OciLayout layout = Made();
  for (const LinkKind link : {LinkKind::kAuto, LinkKind::kHardlink, LinkKind::kCopy}) {
    const auto added = Add(layout, link, "same bytes");
    ASSERT_FALSE(added);
    EXPECT_EQ(added.error().code, Code::kMismatch);
    EXPECT_THAT(added.error().message,
                HasSubstr("file: sha256: expected " + Sha256Hex(std::string_view("same bytes")) +
                          ", found " + Sha256Hex(std::string_view("some bytes"))));
    EXPECT_FALSE(fs::exists(BlobPath("same bytes")));
    EXPECT_TRUE(fs::is_empty(dir_ / "layout/ingest"));
  }
}

TEST_F(OciLayoutTest, LeavesNothingOfAFailedWrite) {
  OciLayout layout = Made();
  const auto before = signal(SIGXFSZ, SIG_IGN);
  rlimit usual = {};
  getrlimit(RLIMIT_FSIZE, &usual);
  const rlimit small = {4, usual.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const auto added = Add(layout, LinkKind::kCopy);
  setrlimit(RLIMIT_FSIZE, &usual);
  signal(SIGXFSZ, before);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::kIo);
  EXPECT_TRUE(fs::is_empty(dir_ / "layout/ingest"));
  EXPECT_TRUE(Add(layout, LinkKind::kCopy));
}

TEST_F(OciLayoutTest, HashesExistingBlobsAndRepairsDamagedOnes) {
  OciLayout layout = Made();
  ASSERT_TRUE(Add(layout, LinkKind::kCopy));
  EXPECT_EQ(Add(layout, LinkKind::kCopy)->how, "there");
  EXPECT_EQ(layout.AddText(Blob("some bytes"), "some bytes")->how, "there");
  const auto spoil = [&](const std::string& bytes) {
    fs::remove(BlobPath("some bytes"));
    fixtures::WriteFile(BlobPath("some bytes"), bytes);
  };
  for (const char* damaged : {"some bytez", "short"}) {
    spoil(damaged);
    const auto added = Add(layout, LinkKind::kCopy);
    ASSERT_TRUE(added) << added.error().message;
    EXPECT_TRUE(added->mended);
    EXPECT_EQ(fixtures::ReadFile(BlobPath("some bytes")), "some bytes");
  }
}

// The target of a link is never touched.
TEST_F(OciLayoutTest, ALinkAmongTheBlobsIsReplacedAndNeverRead) {
  OciLayout layout = Made();
  fs::create_symlink(dir_ / "file", BlobPath("some bytes"));
  const auto read = layout.ReadBlob(Blob("some bytes"), 100);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  EXPECT_THAT(read.error().message, HasSubstr("expected a file, found a link"));
  EXPECT_TRUE(Add(layout, LinkKind::kCopy)->mended);
  EXPECT_FALSE(fs::is_symlink(BlobPath("some bytes")));
  EXPECT_EQ(ModeOf(dir_ / "file"), 0640u);
}

TEST_F(OciLayoutTest, RefusesABlobFolderThatIsALink) {
  { const OciLayout layout = Made(); }
  fs::rename(dir_ / "layout/blobs/sha256", dir_ / "elsewhere");
  fs::create_symlink(dir_ / "elsewhere", dir_ / "layout/blobs/sha256");
  fixtures::WriteFile(BlobPath("some bytes"), "some bytes");
  const auto opened = OciLayout::Open(Path());
  ASSERT_TRUE(opened);
  const auto read = opened->ReadBlob(Blob("some bytes"), 100);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, Code::kCorrupt);
  const auto made = OciLayout::OpenOrMake(Path());
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("expected "));
}

TEST_F(OciLayoutTest, ReadsBlobsWholeAndComparesTheirDigests) {
  OciLayout layout = Made();
  const BlobRecord blob = Blob("text");
  ASSERT_TRUE(layout.AddText(blob, "text"));
  EXPECT_EQ(*layout.ReadBlob(blob, 100), "text");
  const auto failure = [&](const BlobRecord& one, uint64_t limit) {
    const auto read = layout.ReadBlob(one, limit);
    return read ? Error{Code::kIo, "no error"} : read.error();
  };
  EXPECT_THAT(failure(blob, 3).message, HasSubstr("size: expected at most 3 bytes, found 4"));
  EXPECT_THAT(failure({"type", blob.digest, 5}, 100).message,
              HasSubstr(Path() + ": blob " + blob.digest + ": size: expected 5 bytes, found 4"));
  EXPECT_EQ(failure(Blob("absent"), 100).code, Code::kNotFound);
  fs::remove(BlobPath("text"));
  fixtures::WriteFile(BlobPath("text"), "TEXT");
  EXPECT_EQ(failure(blob, 100).code, Code::kCorrupt);
  EXPECT_THAT(failure(blob, 100).message, HasSubstr("content: expected " + blob.digest));
}

TEST_F(OciLayoutTest, OnlyOneProcessWritesAtATime) {
  OciLayout layout = Made();
  const auto second = OciLayout::OpenOrMake(Path());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kIo);
  EXPECT_THAT(second.error().message, HasSubstr("another process is changing it"));
  EXPECT_TRUE(OciLayout::Open(Path()));  // reading still works
}

TEST_F(OciLayoutTest, WaitsForTheLockAsLongAsItIsTold) {
  auto first = std::make_unique<OciLayout>(Made());
  auto second = std::async(std::launch::async, [&] {
    return OciLayout::OpenOrMake(Path(), std::chrono::seconds(60)).has_value();
  });
  EXPECT_EQ(second.wait_for(std::chrono::milliseconds(100)), std::future_status::timeout);
  first.reset();
  EXPECT_TRUE(second.get());
}

TEST_F(OciLayoutTest, AnInterruptEndsTheWaitForTheLock) {
  const OciLayout first = Made();
  InterruptRequested() = true;
  const auto second = OciLayout::OpenOrMake(Path(), std::chrono::seconds(60));
  InterruptRequested() = false;
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::kInterrupted);
}

TEST_F(OciLayoutTest, RemovesWhatAKilledRunLeft) {
  { const OciLayout layout = Made(); }
  fixtures::WriteFile(dir_ / "layout/ingest/rest", "half");
  OciLayout layout = Made();
  EXPECT_TRUE(fs::is_empty(dir_ / "layout/ingest"));
}

TEST_F(OciLayoutTest, KeepsPartialFilesForTheNextRun) {
  { const OciLayout layout = Made(); }
  for (const char* file : {"a.part", "a.cells", "rest.tmp"})
    fixtures::WriteFile(dir_ / "layout/ingest" / file, "half");
  fs::create_directories(dir_ / "layout/ingest/b.part");
  const OciLayout layout = Made();
  EXPECT_TRUE(fs::exists(dir_ / "layout/ingest/a.part"));
  EXPECT_TRUE(fs::exists(dir_ / "layout/ingest/a.cells"));
  EXPECT_FALSE(fs::exists(dir_ / "layout/ingest/rest.tmp"));
  EXPECT_FALSE(fs::exists(dir_ / "layout/ingest/b.part")) << "a directory is not a partial file";
}

TEST_F(OciLayoutTest, LockingCreatesNoLayout) {
  EXPECT_EQ(OciLayout::OpenLocked(Path()).error().code, Code::kNotFound);
  { const OciLayout layout = Made(); }
  const auto locked = OciLayout::OpenLocked(Path());
  ASSERT_TRUE(locked) << locked.error().message;
  EXPECT_EQ(OciLayout::OpenLocked(Path()).error().code, Code::kIo);
}

TEST_F(OciLayoutTest, TheIndexRecordsTheArtifactTypeOfAManifest) {
  OciLayout layout = Made();
  const std::string image = R"({"schemaVersion":2})", model = R"({"artifactType":"x/y"})";
  ASSERT_TRUE(layout.SetTags({{"image", Blob(image), image}, {"model", Blob(model), model}}));
  const std::string index = fixtures::ReadFile(dir_ / "layout/index.json");
  EXPECT_THAT(index, HasSubstr(R"("model"},"artifactType":"x/y"})"));
  EXPECT_THAT(index, HasSubstr(R"("image"}})"));
  EXPECT_LT(index.find("\"model\""), index.find("\"image\"")) << "model comes before image";
}

TEST_F(OciLayoutTest, WritesOnlyToALayoutOrAnEmptyDirectory) {
  fs::create_directories(dir_ / "layout");
  fixtures::WriteFile(dir_ / "layout/mine.txt", "mine");
  const auto made = OciLayout::OpenOrMake(Path());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, Code::kInvalidArgument);
  EXPECT_THAT(made.error().message,
              HasSubstr("expected an OCI image layout or an empty directory, found \"mine.txt\""));
  EXPECT_EQ(OciLayout::Open(Path()).error().code, Code::kNotFound);
  EXPECT_EQ(OciLayout::Open((dir_ / "absent").string()).error().code, Code::kNotFound);
  fixtures::WriteFile(dir_ / "layout/oci-layout", R"({"imageLayoutVersion":"2.0.0"})");
  EXPECT_EQ(OciLayout::Open(Path()).error().code, Code::kUnsupported);
  fs::remove(dir_ / "layout/oci-layout");
  fs::create_symlink(dir_ / "file", dir_ / "layout/oci-layout");
  EXPECT_EQ(OciLayout::Open(Path()).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack::registry
