// Packing with changes of type: conversion, recipe and encoding of the tiny model.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

#include "fixtures/temp_dir.h"
#include "libshard/base/parallel.h"
#include "libshard/format/gguf.h"
#include "libshard/format/read_header.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/plan/plan.h"
#include "libshard/recipe/quantize.h"

namespace moepack {
namespace {

class PackGgufTest : public testing::Test {
 protected:
  void SetUp() override {
    auto model = MoeModel::Open(MOEPACK_SOURCE_DIR "/fixtures/tiny-moe");
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
    PlanOptions plan_options;
    plan_options.groups = 3;
    plan_options.overlay_file = MOEPACK_SOURCE_DIR "/fixtures/tiny-overlay.json";
    auto plan = MakePlan(*model_, plan_options);
    ASSERT_TRUE(plan) << plan.error().message;
    QuantizeOptions options;
    options.recipe.recipe = "Q4_K_M";
    auto typed = PrepareGguf(*model_, options);
    ASSERT_TRUE(typed) << typed.error().message;
    auto files = SliceGguf({typed->model, "0123456789abcdef", {}}, *plan, {});
    ASSERT_TRUE(files) << files.error().message;
    files_ = *std::move(files);
  }

  const std::vector<SourceFile>& sources() const { return model_->checkpoint().files(); }

  Result<PackResult> Run(const fs::path& target, const PackOptions& options) {
    auto staging = StagingDirectory::Start(target, PackIdentity(sources(), files_));
    EXPECT_TRUE(staging) << staging.error().message;
    std::vector<OutputFile> files = files_;
    auto result = Pack(sources(), files, *staging, options);
    if (result) {
      EXPECT_TRUE(staging->Publish(false));
    }
    return result;
  }

  std::vector<std::string> Sums(const std::vector<FileDigests>& files) const {
    std::vector<std::string> sums;
    for (const FileDigests& file : files) sums.push_back(file.sha256);
    return sums;
  }

  std::optional<MoeModel> model_;
  std::vector<OutputFile> files_;
  fixtures::TempDir dir_;
};

TEST_F(PackGgufTest, AnyNumberOfThreadsAndAnyMemoryGiveTheSameBytes) {
  PackOptions options;
  options.jobs = 1;
  const auto one = Run(dir_ / "one", options);
  ASSERT_TRUE(one) << one.error().message;
  for (const size_t jobs : {2u, 8u}) {
    options.jobs = jobs;
    options.memory = jobs == 8 ? 1u << 20 : 64u << 20;
    const auto more = Run(dir_ / std::to_string(jobs), options);
    ASSERT_TRUE(more) << more.error().message;
    EXPECT_EQ(Sums(one->files), Sums(more->files)) << jobs;
  }
}

TEST_F(PackGgufTest, ReadsEverySourceByteOnceThoughTheOverlayRepeatsExperts) {
  uint64_t routers = 0;
  uint64_t all = 0;
  for (const TensorEntry& entry : model_->checkpoint().tensors()) all += entry.bytes;
  for (const ModelTensor& tensor : model_->tensors()) {
    if (tensor.part == Part::kRouter) routers += model_->entry(tensor).bytes;
  }
  const auto result = Run(dir_ / "out", {});
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GE(result->read_bytes, all);
  // Routers are whole in one file and split by rows in others.
  EXPECT_LE(result->read_bytes, all + routers);
}

TEST_F(PackGgufTest, WritesFilesThatMatchTheirHeaders) {
  ASSERT_TRUE(Run(dir_ / "out", {}));
  for (const OutputFile& file : files_) {
    const auto written = InputFile::Open(dir_ / "out" / file.path);
    ASSERT_TRUE(written) << written.error().message;
    EXPECT_EQ(written->size(), file.size);
    const auto header = ReadGgufHeader(*written, file.path);
    ASSERT_TRUE(header) << header.error().message;
    EXPECT_EQ(header->tensors.size(), file.tensors.size());
  }
}

TEST_F(PackGgufTest, ComputesDigestsWithoutWriting) {
  const auto written = Run(dir_ / "out", {});
  ASSERT_TRUE(written) << written.error().message;
  const auto hashed = DigestOutputs(sources(), files_, {});
  ASSERT_TRUE(hashed) << hashed.error().message;
  EXPECT_EQ(Sums(*hashed), Sums(written->files));
}

TEST_F(PackGgufTest, ReusesWhatAnInterruptedRunFinished) {
  const auto whole = Run(dir_ / "whole", {});
  ASSERT_TRUE(whole) << whole.error().message;
  {
    auto staging = StagingDirectory::Start(dir_ / "out", PackIdentity(sources(), files_));
    ASSERT_TRUE(staging);
    PackOptions options;
    options.keep_partial = true;
    options.progress = [](uint64_t done, uint64_t total) {
      if (done > total / 2) InterruptRequested() = true;
    };
    std::vector<OutputFile> files = files_;
    EXPECT_FALSE(Pack(sources(), files, *staging, options));
    InterruptRequested() = false;
  }
  const auto resumed = Run(dir_ / "out", {});
  ASSERT_TRUE(resumed) << resumed.error().message;
  EXPECT_GT(resumed->resumed_bytes, 0u);
  EXPECT_LT(resumed->read_bytes, whole->read_bytes);
  EXPECT_EQ(Sums(resumed->files), Sums(whole->files));
}

TEST_F(PackGgufTest, AnotherTypeGivesAnotherIdentity) {
  const std::string before = PackIdentity(sources(), files_);
  OutputTensor& tensor = files_.back().tensors.back();
  ASSERT_TRUE(tensor.encoding);
  const auto importance = std::make_shared<Importance>();
  importance->digest = "other";
  Encoding encoding = *tensor.encoding;
  encoding.importance = importance;
  tensor.encoding = std::make_shared<const Encoding>(encoding);
  EXPECT_NE(PackIdentity(sources(), files_), before);
}

}  // namespace
}  // namespace moepack
