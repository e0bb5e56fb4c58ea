#include "libshard/refit/node_top_k.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace moepack {
namespace {

TEST(NodeTopK, IsTheModelsOwnUnlessTheRecordChangesIt) {
  RefitRecord record;
  EXPECT_EQ(*NodeTopK("distribution.json", record), 0u);
  record.parameters["top_k"] = "0";
  EXPECT_EQ(*NodeTopK("distribution.json", record), 0u);
  record.parameters["top_k"] = "4";
  EXPECT_EQ(*NodeTopK("distribution.json", record), 4u);
}

TEST(NodeTopK, RefusesTextThatIsNotANumber) {
  for (const char* text : {"many", "-1", "", "70000"}) {
    RefitRecord record;
    record.parameters["top_k"] = text;
    const auto top_k = NodeTopK("distribution.json", record);
    ASSERT_FALSE(top_k) << text;
    EXPECT_EQ(top_k.error().code, Code::kCorrupt);
    EXPECT_EQ(top_k.error().message,
              std::string("distribution.json: refit: parameters: top_k: expected a number up to "
                          "65536, found \"") +
                  text + "\"");
  }
}

}  // namespace
}  // namespace moepack
