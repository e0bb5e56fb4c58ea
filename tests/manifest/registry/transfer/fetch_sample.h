// A directory for files that come from a FarSource.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fixtures/memory_temp.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/parallel.h"
#include "manifest/registry/transfer/fetch_file.h"
#include "tests/manifest/registry/transfer/far_source.h"

namespace moepack::registry {

class FetchSample : public testing::Test {
 protected:
  void SetUp() override {
    auto opened = InsideDirectory::Open(dir_.path());
    ASSERT_TRUE(opened) << opened.error().message;
    directory_.emplace(std::move(*opened));
  }
  void TearDown() override { InterruptRequested() = false; }

  Result<FetchReport> Fetch(const FarSource& from, const FetchOptions& options = SmallCells(),
                            uint64_t map_of_cells = 0) {
    return FetchFile(from, from.Stated(map_of_cells), *directory_, "file", options);
  }
  std::vector<std::string> Files() const {
    const auto files = directory_->ListFiles();
    return files ? *files : std::vector<std::string>{files.error().message};
  }
  // The file exists with its bytes, and nothing else does.
  void ExpectWhole(const FarSource& from) const {
    EXPECT_EQ(Files(), std::vector<std::string>{"file"});
    EXPECT_EQ(Sha256Hex(TextOf(*directory_, "file")), Sha256Hex(from.bytes()));
  }
  // A run that breaks off after that many bytes.
  void FetchSome(FarSource& from, uint64_t bytes, const FetchOptions& options = SmallCells()) {
    from.before = FailAfter(bytes);
    const auto report = Fetch(from, options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().message, BrokenOff().message);
    from.before = {};
    from.counts->bytes = 0;
  }
  void Put(const std::string& name, const std::string& text) const {
    ASSERT_TRUE(fixtures::WriteFile(dir_ / name, text));
  }
  std::string Get(const std::string& name) const { return fixtures::ReadFile(dir_ / name); }

  const fixtures::MemoryTemp memory_;
  const fixtures::TempDir dir_;
  std::optional<InsideDirectory> directory_;
};

}  // namespace moepack::registry
