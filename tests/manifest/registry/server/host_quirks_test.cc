#include "manifest/registry/server/host_quirks.h"

#include <gtest/gtest.h>

namespace moepack::registry {
namespace {

TEST(HostQuirksTable, AStarMatchesAnyCharacters) {
  EXPECT_TRUE(QuirksOf("123456789012.dkr.ecr.eu-west-1.amazonaws.com").range_stays);
  EXPECT_TRUE(QuirksOf("europe-docker.pkg.dev").whole_only);
  EXPECT_TRUE(QuirksOf("eu.gcr.io").whole_only);
  EXPECT_TRUE(QuirksOf("gcr.io").whole_only);
}

TEST(HostQuirksTable, UnknownHostsHaveNoQuirks) {
  for (const char* host : {"registry.example", "127.0.0.1", "", "ghcr.io.example", "notghcr.io",
                           "dkr.ecr.amazonaws.com", "pkg.dev"}) {
    const HostQuirks quirks = QuirksOf(host);
    EXPECT_FALSE(quirks.whole_only) << host;
    EXPECT_EQ(quirks.most_chunk, 0u) << host;
    EXPECT_FALSE(quirks.range_stays) << host;
  }
}

TEST(HostQuirksTable, EveryRowHasAnEffect) {
  for (const HostQuirks& row : AllHostQuirks()) {
    EXPECT_TRUE(row.whole_only || row.most_chunk > 0 || row.range_stays) << row.host;
    EXPECT_STREQ(QuirksOf(row.host).host, row.host) << "an earlier row matches the same host";
  }
  EXPECT_EQ(QuirksOf("ghcr.io").most_chunk, 4u << 20);
}

}  // namespace
}  // namespace moepack::registry
