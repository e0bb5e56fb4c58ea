#include "manifest/registry/server/chunked_upload.h"

#include <gtest/gtest.h>

namespace moepack::registry {
namespace {

TEST(ChunkRange, ReadsTheEndOfARange) {
  EXPECT_EQ(RangeEnd("0-99"), 99u);
  EXPECT_EQ(RangeEnd("bytes=0-99"), 99u);
  EXPECT_EQ(RangeEnd("0-0"), 0u);
  for (const char* text : {"", "0", "-", "5-99", "0-", "0-x", "bytes 0-99", "0--1"})
    EXPECT_EQ(RangeEnd(text), std::nullopt) << text;
}

TEST(ChunkRange, KeepsItsOwnCountIfTheRegistryAgreesOrIsSilent) {
  EXPECT_EQ(NextOffset(100, 200, "0-199", false), 200u);
  EXPECT_EQ(NextOffset(100, 200, "", false), 200u);
  EXPECT_EQ(NextOffset(0, 1, "0-0", false), 1u);
}

TEST(ChunkRange, IgnoresAnEndThatIsOffByOne) {
  EXPECT_EQ(NextOffset(100, 200, "0-200", false), 200u);
}

TEST(ChunkRange, ResendsWhatTheRegistryLacks) {
  EXPECT_EQ(NextOffset(100, 200, "0-149", false), 150u);
  EXPECT_EQ(NextOffset(100, 200, "0-100", false), 101u);
}

TEST(ChunkRange, IgnoresARangeThatNeverMovesWhereThatIsKnown) {
  EXPECT_EQ(NextOffset(100, 200, "0-99", true), 200u);
  EXPECT_EQ(NextOffset(100, 200, "0-99", false), std::nullopt);
}

TEST(ChunkRange, RejectsARangeBeyondWhatWasSent) {
  EXPECT_EQ(NextOffset(100, 200, "0-500", false), std::nullopt);
}

}  // namespace
}  // namespace moepack::registry
