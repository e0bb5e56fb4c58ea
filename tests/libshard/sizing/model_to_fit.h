// A small model with real headers, for tests of what fits where.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/sizing/node_bytes.h"

namespace moepack {

class ModelToFit {
 public:
  explicit ModelToFit(const std::string& layout = "qwen3-moe",
                      const fixtures::Options& options = {
                          .layers = 2, .experts = 8, .hidden = 256, .ff = 256, .sparse = true}) {
    EXPECT_TRUE(fixtures::MakeCheckpoint(layout, dir_ / "model", options));
    auto opened = MoeModel::Open(dir_ / "model");
    EXPECT_TRUE(opened) << opened.error().message;
    model_ = std::move(*opened);
  }
  const MoeModel& model() const { return *model_; }
  // "" for the source's own types.
  NodeSizer Sizer(const std::string& recipe = "Q8_0") const {
    std::optional<QuantizeOptions> types;
    if (!recipe.empty()) types.emplace().recipe.recipe = recipe;
    auto sizer = NodeSizer::Make(*model_, types);
    EXPECT_TRUE(sizer) << sizer.error().message;
    return *sizer;
  }
  std::string path() const { return (dir_ / "model").string(); }

 private:
  fixtures::TempDir dir_;
  std::optional<MoeModel> model_;
};

// Options of a plan by number.
inline PlanOptions ByNumber(uint32_t groups, const std::string& partition = "contiguous") {
  PlanOptions options;
  options.groups = groups;
  options.partition = partition;
  return options;
}

inline uint64_t TotalOf(const NodeSizer& sizer, uint32_t eligible) {
  const auto bytes = sizer.NodeOf(eligible);
  EXPECT_TRUE(bytes) << bytes.error().message;
  return bytes ? bytes->total() : 0;
}

}  // namespace moepack
