#include "manifest/registry/transfer/cell_map.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack::registry {
namespace {

using testing::HasSubstr;

const std::string kDigest(64, 'a');

CellMap Map() { return {kDigest, 250, 100}; }

TEST(CellMap, TheLastCellHoldsTheRemainder) {
  EXPECT_EQ(Map().count(), 3u);
  EXPECT_EQ(Map().BytesOf(0), 100u);
  EXPECT_EQ(Map().BytesOf(2), 50u);
  EXPECT_EQ(CellMap(kDigest, 200, 100).count(), 2u);
  EXPECT_EQ(CellMap(kDigest, 0, 100).count(), 0u);
}

TEST(CellMap, ReadsWhatItWrote) {
  CellMap map = Map();
  map.Set(0, true);
  map.Set(2, true);
  EXPECT_EQ(map.done_bytes(), 150u);
  EXPECT_EQ(map.Text(), "{\"version\":1,\"sha256\":\"" + kDigest +
                            "\",\"size\":250,\"cell_bytes\":100,\"done\":\"101\"}\n");
  CellMap read = Map();
  ASSERT_TRUE(read.Read("side", map.Text()));
  EXPECT_EQ(read.Text(), map.Text());
}

TEST(CellMap, RefusesTheSideFileOfAnotherDownload) {
  CellMap map = Map();
  map.Set(1, true);
  const auto message = [&](const std::string& from, const std::string& to) {
    std::string text = map.Text();
    text.replace(text.find(from), from.size(), to);
    CellMap read = Map();
    const Status status = read.Read("side", text);
    EXPECT_EQ(read.done_bytes(), 0u);
    return status ? std::string("no error") : status.error().message;
  };
  EXPECT_EQ(message("\"version\":1", "\"version\":2"), "side: version: expected 1, found 2");
  EXPECT_THAT(message("aaaa", "bbbb"), HasSubstr("side: sha256: expected aaaa"));
  EXPECT_EQ(message("250", "251"), "side: size: expected 250, found 251");
  EXPECT_EQ(message("100,", "50,"), "side: cell_bytes: expected 100, found 50");
  EXPECT_EQ(message("\"010\"", "\"0100\""),
            "side: done: expected 3 digits, each 0 or 1, found \"0100\"");
  EXPECT_EQ(message("\"010\"", "\"012\""),
            "side: done: expected 3 digits, each 0 or 1, found \"012\"");
  EXPECT_THAT(message("{", "["), HasSubstr("side"));
}

}  // namespace
}  // namespace moepack::registry
