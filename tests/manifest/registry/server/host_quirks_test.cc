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

TEST(HostQuirksTable, EveryHostGetsTheRowThatIsForIt) {
  struct Case {
    const char *host, *row;
  };
  for (const auto& [host, row] :
       {Case{"ghcr.io", "ghcr.io"},
        Case{"1.dkr.ecr.eu-west-1.amazonaws.com", "*.dkr.ecr.*.amazonaws.com"},
        Case{"1.dkr.ecr.cn-north-1.amazonaws.com.cn", "*.dkr.ecr.*.amazonaws.com.cn"},
        Case{"public.ecr.aws", "public.ecr.aws"}, Case{"europe-docker.pkg.dev", "*.pkg.dev"},
        Case{"gcr.io", "gcr.io"}, Case{"eu.gcr.io", "*.gcr.io"}}) {
    EXPECT_STREQ(QuirksOf(host).host, row) << host;
    EXPECT_TRUE(QuirksOf(host).whole_only) << host;
  }
  EXPECT_EQ(QuirksOf("ghcr.io").most_chunk, 4u << 20);
}

}  // namespace
}  // namespace moepack::registry
