#include "manifest/registry/transfer/part_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/manifest/registry/transfer/fetch_sample.h"

namespace moepack::registry {
namespace {

using testing::HasSubstr;

class PartFileTest : public FetchSample {
 protected:
  static constexpr uint64_t kSize = 250, kCell = 100;
  Result<PartFile> Open() const {
    return PartFile::Open(*directory_, "file", CellMap(std::string(64, 'a'), kSize, kCell), {});
  }
  static std::span<const std::byte> Bytes(std::string_view text) {
    return std::as_bytes(std::span(text));
  }
};

TEST_F(PartFileTest, AllocatesItsSpaceAtOnce) {
  const auto part = Open();
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(Get("file.part").size(), kSize);
  EXPECT_GE(AllocatedBytes(*directory_, "file"), kSize);
  EXPECT_EQ(AllocatedBytes(*directory_, "none"), 0u);
}

TEST_F(PartFileTest, KeepsCellsAndForgetsThem) {
  auto part = Open();
  ASSERT_TRUE(part);
  ASSERT_TRUE(part->Write(100, Bytes("cell")));
  ASSERT_TRUE(part->Keep({1}));
  EXPECT_TRUE(Open()->cells().Has(1));
  EXPECT_FALSE(Open()->cells().Has(0));
  ASSERT_TRUE(part->Forget({1}));
  EXPECT_EQ(Open()->cells().done_bytes(), 0u);
}

TEST_F(PartFileTest, IsPublishedUnderItsName) {
  auto part = Open();
  ASSERT_TRUE(part->Write(0, Bytes(std::string(kSize, 'x'))));
  ASSERT_TRUE(part->Keep({0, 1, 2}));
  const Status published = part->Publish();
  ASSERT_TRUE(published) << published.error().message;
  EXPECT_EQ(Files(), std::vector<std::string>{"file"});
  EXPECT_EQ(Get("file"), std::string(kSize, 'x'));
}

TEST_F(PartFileTest, WritesAndPublishesNothingAfterLosingItsFile) {
  auto part = Open();
  std::filesystem::rename(dir_ / "file.part", dir_ / "file");
  EXPECT_FALSE(part->IsOurs());
  const Status written = part->Write(0, Bytes("x"));
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, Code::kIo);
  EXPECT_EQ(Get("file"), std::string(kSize, '\0'));
  Put("file.part", "of another");
  const Status published = part->Publish();
  ASSERT_FALSE(published);
  EXPECT_THAT(published.error().message, HasSubstr("expected the file that this run writes"));
  EXPECT_EQ(Get("file.part"), "of another");
  EXPECT_EQ(Get("file"), std::string(kSize, '\0'));
}

TEST_F(PartFileTest, AFileOfOneCellHasNoSideFile) {
  auto part = PartFile::Open(*directory_, "file", CellMap(std::string(64, 'a'), kCell, kCell), {});
  ASSERT_TRUE(part);
  ASSERT_TRUE(part->Keep({0}));
  EXPECT_EQ(Files(), std::vector<std::string>{"file.part"});
}

}  // namespace
}  // namespace moepack::registry
