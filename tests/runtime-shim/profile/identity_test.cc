#include "runtime-shim/profile/identity.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "libshard/base/files/memory_tree.h"
#include "libshard/graph/model_spec.h"
#include "libshard/stats/statistics_file.h"
#include "tests/runtime-shim/support/tiny_weights.h"

namespace moepack::runtime {
namespace {

// GGUF strings may hold any bytes. Writing the statistics of such a model used to fail.
TEST(ModelIdentity, EscapesANameThatIsNotUtf8SoThatItCanBeWritten) {
  const auto weights = TinyWeights("qwen3moe");
  weights->metadata.Set("general.name", GgufValue::String("tiny \xff"));
  const auto spec = ReadModelSpec("tiny", weights->metadata);
  ASSERT_TRUE(spec) << spec.error().message;
  const auto model = IdentifyModel(*weights, *spec);
  ASSERT_TRUE(model) << model.error().message;
  EXPECT_EQ(model->name, "tiny \\xff");
  const Statistics statistics = EmptyStatistics(*model);
  const auto read = ReadStatistics(MemorySource("s", StatisticsBytes("s.json", statistics)));
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_TRUE(*read == statistics);
}

}  // namespace
}  // namespace moepack::runtime
