// A published distribution, and what tests of pulling expect of an output.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "manifest/verify/verify.h"
#include "tests/manifest/registry/layout_sample.h"

namespace moepack::registry {

namespace fs = std::filesystem;

inline constexpr const char* kGroupFile0 = "groups/000/experts.safetensors";
inline constexpr const char* kGroupFile1 = "groups/001/experts.safetensors";

class PullTest : public LayoutSample {
 protected:
  void SetUp() override { PublishOne(); }
  void Pulls(const std::vector<uint32_t>& groups, const Reference& from) {
    const auto report = PullGroups(groups, from);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_EQ(report->groups, groups);
  }
  // The files of a distribution, without the lock.
  std::map<std::string, std::string> Files(const std::string& out) const {
    auto files = tiny::Tree(dir_ / out);
    files.erase("pulled.json");
    return files;
  }
  // Every file of the output equals that of the distribution, byte for byte.
  void ExpectSameFiles(const std::string& out = "out") {
    for (const auto& [name, bytes] : Files(out))
      EXPECT_TRUE(bytes == fixtures::ReadFile(dir_ / "dist" / name)) << name;
  }
  bool Verifies(const std::vector<uint32_t>& groups) {
    manifest::VerifyOptions options;
    options.groups = groups;
    const auto report = manifest::VerifyDistribution(Path("out"), options);
    EXPECT_TRUE(report);
    return report && report->passed();
  }
  Error Refusal(const Reference& from, const std::vector<uint32_t>& groups,
                const PullOptions& options = {}) {
    const auto report = PullGroups(groups, from, "out", options);
    EXPECT_FALSE(report);
    EXPECT_FALSE(fs::exists(dir_ / "out.partial"));
    return report ? Error{Code::kIo, ""} : report.error();
  }
};

}  // namespace moepack::registry
