#include "manifest/registry/store_report.h"

#include <gtest/gtest.h>

namespace moepack::registry {
namespace {

TEST(StoreReport, AddsUpBytesByOrigin) {
  StoreReport report;
  report.blobs = {{"a", "", 1, "copy", false},
                  {"b", "", 2, "sent", false},
                  {"c", "", 4, "there", true},
                  {"d", "", 8, "sent", false}};
  report.tags = {{"v1", "sha256:1"}, {"v1-g000", "sha256:2"}};
  EXPECT_EQ(report.added_bytes(), 11u);
  EXPECT_EQ(report.there_bytes(), 4u);
  EXPECT_EQ(report.bytes_by("sent"), 10u);
  EXPECT_EQ(report.digest(), "sha256:1");
}

}  // namespace
}  // namespace moepack::registry
