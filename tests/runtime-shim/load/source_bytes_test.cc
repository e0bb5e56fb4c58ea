#include "runtime-shim/load/source_bytes.h"

#include <gmock/gmock.h>

#include "fixtures/safetensors_writer.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "runtime-shim/load/source_bytes.h"

namespace moepack::runtime {
namespace {

ByteView View(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string Found(const SourceBytes& bytes, uint64_t offset, uint64_t count, size_t pieces) {
  std::vector<ByteView> views;
  EXPECT_TRUE(bytes.Find({0, offset, count}, views));
  EXPECT_EQ(views.size(), pieces);
  std::string text;
  for (const ByteView view : views)
    text.append(reinterpret_cast<const char*>(view.data()), view.size());
  return text;
}

TEST(LoadSourceBytes, FindsRangesAcrossSeveralStretches) {
  const std::string first = "abcd", second = "efgh";
  SourceBytes bytes;
  bytes.Add(0, 10, View(first));
  bytes.Add(0, 14, View(second));
  EXPECT_EQ(Found(bytes, 10, 4, 1), "abcd");
  EXPECT_EQ(Found(bytes, 12, 4, 2), "cdef");
  EXPECT_EQ(Found(bytes, 17, 1, 1), "h");
  EXPECT_EQ(Found(bytes, 17, 0, 0), "");
}

TEST(LoadSourceBytes, AdjacentMemoryIsOneView) {
  const std::string all = "abcdefgh";
  SourceBytes bytes;
  bytes.Add(0, 100, View(all).first(4));
  bytes.Add(0, 104, View(all).subspan(4));
  EXPECT_EQ(Found(bytes, 101, 6, 1), "bcdefg");
}

TEST(LoadSourceBytes, ALaterStretchReplacesAnEarlierOne) {
  const std::string group = "group", other = "other";
  SourceBytes bytes;
  bytes.Add(0, 0, View(group));
  bytes.Add(0, 0, View(other));
  EXPECT_EQ(Found(bytes, 0, 5, 1), "other");
}

TEST(LoadSourceBytes, BytesOutsideEveryPartAreAnError) {
  const std::string text = "abcd";
  SourceBytes bytes;
  bytes.Add(1, 10, View(text));
  const SourceRange holes[] = {{1, 9, 1}, {1, 12, 3}, {1, 14, 1}, {0, 10, 1}, {2, 10, 1}};
  for (const SourceRange& range : holes) {
    std::vector<ByteView> views;
    const Status found = bytes.Find(range, views);
    ASSERT_FALSE(found) << range.offset;
    EXPECT_EQ(found.error().code, Code::kMismatch);
  }
}

TEST(LoadSourceBytes, AFileThatChangedAfterItsHeaderWasReadIsRefused) {
  const fixtures::TempDir dir;
  fixtures::WriteFile(dir / "file", "before");
  SourceFile file;
  file.name = "file";
  file.tree = std::make_shared<LocalTree>(dir.path());
  file.identity = file.tree->Open("file").value()->identity();
  EXPECT_TRUE(MapAgain(file));
  fixtures::WriteFile(dir / "file", "after it");
  const auto mapped = MapAgain(file);
  ASSERT_FALSE(mapped);
  EXPECT_EQ(mapped.error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack::runtime
