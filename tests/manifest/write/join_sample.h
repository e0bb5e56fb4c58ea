// Parts of tiny distributions in one directory, and joins of them.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "fixtures/memory_temp.h"
#include "fixtures/temp_dir.h"
#include "manifest/write/join.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::manifest {

using sample::kGroup1;

class JoinTest : public testing::Test {
 protected:
  void Write(const std::string& name, const WriteOptions& options = tiny::Only(),
             const std::filesystem::path& source = tiny::kSource) {
    const auto report = tiny::Write(dir_ / name, options, source);
    ASSERT_TRUE(report) << report.error().message;
  }
  // The three machines of most tests: together they write a whole distribution.
  void WriteThree() {
    Write("a", tiny::Only({"trunk", "group:0"}));
    Write("b", tiny::Only({"group:1", "assets"}));
    Write("c", tiny::Only({"group:2", "overlay"}));
  }
  Result<JoinReport> Join(std::vector<std::string> names, const std::string& out = "out",
                          const JoinOptions& options = {}) {
    for (std::string& name : names) name = (dir_ / name).string();
    return JoinDistributions(names, (dir_ / out).string(), options);
  }
  // The error of a join that must leave everything unchanged.
  Error Refusal(const std::vector<std::string>& names, const std::string& out = "out",
                const JoinOptions& options = {}) {
    const auto before = tiny::Tree(dir_.path());
    const auto report = Join(names, out, options);
    EXPECT_FALSE(report);
    EXPECT_TRUE(tiny::Tree(dir_.path()) == before);
    return report ? Error{Code::kIo, ""} : report.error();
  }
  // Replaces the first `from` by `to` in the manifest of `name`.
  void Rewrite(const std::string& name, const std::string& from, const std::string& to) {
    const std::filesystem::path path = dir_ / name / kManifestFile;
    std::string text = fixtures::ReadFile(path);
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    fixtures::WriteFile(path, text.replace(at, from.size(), to));
  }
  // Changes the first digit of the first `field` from `start` on.
  void ChangeDigest(const std::string& name, const std::string& start, const std::string& field) {
    const std::filesystem::path path = dir_ / name / kManifestFile;
    std::string text = fixtures::ReadFile(path);
    const std::string key = "\"" + field + "\": \"";
    const size_t at = text.find(key, text.find(start));
    ASSERT_NE(at, std::string::npos) << field;
    char& digit = text[at + key.size()];
    digit = digit == '0' ? '1' : '0';
    fixtures::WriteFile(path, text);
  }
  const fixtures::MemoryTemp in_memory_;
  fixtures::TempDir dir_;
};

}  // namespace moepack::manifest
