// fixtures/tiny-moe split in three with an overlay, written once per suite, and its nodes.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>

#include "runtime-shim/session/node.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::runtime {

class TinyDistribution : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    directory_ = std::make_unique<fixtures::TempDir>();
    const auto report = tiny::Write(*directory_ / "out");
    ASSERT_TRUE(report) << report.error().message;
  }
  static void TearDownTestSuite() { directory_.reset(); }

  static std::string path() { return (*directory_ / "out").string(); }

  static std::unique_ptr<Node> OpenSource(const std::string& source,
                                          std::optional<uint32_t> group) {
    NodeOptions options;
    options.group = group;
    options.device.threads = 1;
    auto node = Node::Open(source, options);
    EXPECT_TRUE(node) << node.error().message;
    return node ? *std::move(node) : nullptr;
  }
  static std::unique_ptr<Node> Open(std::optional<uint32_t> group) {
    return OpenSource(path(), group);
  }

  static Error Refusal(const NodeOptions& options) {
    const auto node = Node::Open(path(), options);
    EXPECT_FALSE(node);
    return node ? Error{Code::kIo, "opened"} : node.error();
  }
  static Error Refusal(uint32_t group) {
    NodeOptions options;
    options.group = group;
    return Refusal(options);
  }

 private:
  static inline std::unique_ptr<fixtures::TempDir> directory_;
};

}  // namespace moepack::runtime
