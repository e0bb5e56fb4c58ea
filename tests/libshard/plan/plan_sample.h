// Plans in tests: options, and the files that they name.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/plan/plan.h"

namespace moepack {

class PlanFromFiles : public ::testing::Test {
 protected:
  std::string Write(const std::string& name, const std::string& text) {
    const fs::path path = directory_ / name;
    EXPECT_TRUE(WriteTextFile(path, text));
    return path.string();
  }
  std::string Overlay(const std::string& text) { return Write("overlay.json", text); }
  std::string Explicit(const std::string& text) { return "explicit:" + Write("groups.json", text); }

 private:
  fixtures::TempDir directory_;
};

inline PlanOptions Groups(uint32_t groups, const std::string& partition = "contiguous") {
  PlanOptions options;
  options.groups = groups;
  options.partition = partition;
  return options;
}

}  // namespace moepack
