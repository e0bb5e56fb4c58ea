#include "tools/reports/store_report.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace moepack::cli {
namespace {

using testing::HasSubstr;

registry::StoreReport Sample() {
  registry::StoreReport report;
  report.blobs = {{"a\x1b", "sha256:a", 1000, "fetched", false},
                  {"b", "sha256:b", 2000, "there", true}};
  report.tags = {{"v1", "sha256:1", {}, "sha256:1"},
                 {"v1-g007", "sha256:2", 7, "sha256:1"},
                 {"v2", "sha256:3"}};
  return report;
}

TEST(StoreReport, TagsAreNewMovedOrUnchanged) {
  EXPECT_EQ(TagState(Sample().tags[0]), "as it was");
  EXPECT_EQ(TagState(Sample().tags[1]), "moved");
  EXPECT_EQ(TagState(Sample().tags[2]), "new");
  EXPECT_THAT(TagTable(Sample()), HasSubstr("v1-g007  moved      sha256:2\n"));
}

TEST(StoreReport, TextSaysWhereBytesCameFrom) {
  EXPECT_THAT(BlobTable(Sample()), HasSubstr("a\\x1b  1,000  fetched\n"));
  EXPECT_EQ(BytesText(Sample(), false),
            "1.00 kB (1,000 bytes) new, 1.00 kB (1,000 bytes) of them fetched; 2.00 kB (2,000 "
            "bytes) already there");
  EXPECT_EQ(BytesText(Sample(), true).find("fetched"), std::string::npos);
}

TEST(StoreReport, JsonHasEveryField) {
  Json document;
  AddStoreJson(Sample(), document);
  EXPECT_EQ(document["digest"], "sha256:1");
  EXPECT_EQ(document["tags"][1]["group"], 7);
  EXPECT_EQ(document["blobs"][1]["how"], "there");
  EXPECT_EQ(document["bytes_fetched"], 1000);
  EXPECT_EQ(document["bytes_new"], 1000);
}

}  // namespace
}  // namespace moepack::cli
