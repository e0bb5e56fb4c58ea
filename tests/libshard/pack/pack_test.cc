#include "libshard/pack/pack.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <optional>
#include <random>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/base/parallel.h"
#include "libshard/format/safetensors.h"
#include "libshard/plan/plan.h"

namespace moepack {
namespace {

using testing::HasSubstr;

// tiny-moe in three groups with an overlay, and the expected contents of its output files.
class PackTest : public testing::Test {
 protected:
  void SetUp() override {
    auto model = MoeModel::Open(MOEPACK_SOURCE_DIR "/fixtures/tiny-moe");
    ASSERT_TRUE(model) << model.error().message;
    model_.emplace(*std::move(model));
    PlanOptions options;
    options.groups = 3;
    options.overlay_file = MOEPACK_SOURCE_DIR "/fixtures/tiny-overlay.json";
    auto plan = MakePlan(*model_, options);
    ASSERT_TRUE(plan) << plan.error().message;
    auto files = SliceSafetensors(*model_, *plan, {});
    ASSERT_TRUE(files) << files.error().message;
    files_ = *std::move(files);
  }

  const std::vector<SourceFile>& sources() const { return model_->checkpoint().files(); }

  Result<PackResult> Run(StagingDirectory& staging, const PackOptions& options = {}) {
    std::vector<OutputFile> files = files_;
    return Pack(sources(), files, staging, options);
  }

  Result<StagingDirectory> Stage(const fs::path& target) {
    return StagingDirectory::Start(target, PackIdentity(sources(), files_));
  }

  // The bytes of an output file, gathered one tensor after the other.
  std::string Expected(const OutputFile& file) const {
    std::string out = file.prefix;
    for (const OutputTensor& tensor : file.tensors) {
      for (const SourceRange& range : tensor.sources) {
        std::ifstream in(sources()[range.file].path, std::ios::binary);
        std::string bytes(range.bytes, '\0');
        in.seekg(static_cast<std::streamoff>(range.offset));
        in.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
        out += bytes;
      }
    }
    return out;
  }

  void ExpectWhole(const fs::path& directory) const {
    for (const OutputFile& file : files_) {
      EXPECT_TRUE(fixtures::ReadFile(directory / file.path) == Expected(file)) << file.path;
    }
  }

  std::optional<MoeModel> model_;
  std::vector<OutputFile> files_;
};

TEST_F(PackTest, WritesEveryByteWithAnyNumberOfJobsAndAnyMemory) {
  for (const size_t jobs : {1u, 2u, 5u}) {
    const fixtures::TempDir dir;
    auto staging = Stage(dir / "out");
    ASSERT_TRUE(staging);
    PackOptions options;
    options.jobs = jobs;
    options.memory = jobs == 2 ? 1 : 64u << 20;
    const auto result = Run(*staging, options);
    ASSERT_TRUE(result) << result.error().message;
    ASSERT_TRUE(staging->Publish(false));
    ExpectWhole(dir / "out");
    for (size_t f = 0; f < files_.size(); ++f) {
      const std::string bytes = fixtures::ReadFile(dir / "out" / files_[f].path);
      EXPECT_EQ(result->files[f].sha256, Sha256Hex(bytes));
      for (size_t t = 0; t < files_[f].tensors.size(); ++t) {
        const TensorEntry& entry = files_[f].tensors[t].entry;
        const auto all = std::as_bytes(std::span(bytes.data(), bytes.size()));
        EXPECT_EQ(result->files[f].tensors[t], Xxh3Hex(all.subspan(entry.offset, entry.bytes)));
      }
    }
  }
}

TEST_F(PackTest, ReadsEverySourceByteOnceThoughOverlayAndFillRepeatExperts) {
  const fixtures::TempDir dir;
  auto staging = Stage(dir / "out");
  ASSERT_TRUE(staging);
  const auto result = Run(*staging);
  ASSERT_TRUE(result);
  uint64_t source_data = 0;
  for (const SourceFile& file : sources()) source_data += file.size - file.data_start;
  EXPECT_EQ(result->read_bytes, source_data);
  EXPECT_GT(result->written_bytes, source_data);
}

TEST_F(PackTest, LeavesNothingWhenItIsNotPublished) {
  const fixtures::TempDir dir;
  {
    auto staging = Stage(dir / "out");
    ASSERT_TRUE(staging);
    ASSERT_TRUE(Run(*staging));
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

TEST_F(PackTest, ReportsProgressUpToTheTotal) {
  const fixtures::TempDir dir;
  auto staging = Stage(dir / "out");
  ASSERT_TRUE(staging);
  PackOptions options;
  uint64_t last_done = 0, last_total = 0;
  options.progress = [&](uint64_t done, uint64_t total) {
    EXPECT_GE(done, last_done);
    last_done = done;
    last_total = total;
  };
  ASSERT_TRUE(Run(*staging, options));
  EXPECT_EQ(last_done, last_total);
}

TEST_F(PackTest, AnInterruptedRunResumesToTheSameBytes) {
  const fixtures::TempDir dir;
  {
    auto staging = Stage(dir / "out");
    ASSERT_TRUE(staging);
    PackOptions options;
    options.progress = [](uint64_t done, uint64_t total) {
      if (done * 2 > total) InterruptRequested() = true;
    };
    const auto result = Run(*staging, options);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, Code::kInterrupted);
  }
  InterruptRequested() = false;
  EXPECT_FALSE(fs::exists(dir / "out"));
  ASSERT_TRUE(fs::exists(dir / "out.partial"));
  auto staging = Stage(dir / "out");
  ASSERT_TRUE(staging);
  EXPECT_TRUE(staging->resumed());
  const auto result = Run(*staging);
  ASSERT_TRUE(result) << result.error().message;
  EXPECT_GT(result->resumed_bytes, 0u);
  ASSERT_TRUE(staging->Publish(false));
  ExpectWhole(dir / "out");
  EXPECT_FALSE(fs::exists(dir / "out.partial"));
}

TEST_F(PackTest, DetectsAndRepairsDamageLeftByAnInterruptedRun) {
  const fixtures::TempDir dir;
  {
    auto staging = Stage(dir / "out");
    ASSERT_TRUE(staging);
    ASSERT_TRUE(Run(*staging));
    staging->Keep();
  }
  std::fstream file(dir / "out.partial/files" / files_[1].path,
                    std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(static_cast<std::streamoff>(files_[1].tensors[2].entry.offset));
  file << "damage";
  file.close();
  fs::resize_file(dir / "out.partial/files" / files_[2].path, 100);
  auto staging = Stage(dir / "out");
  ASSERT_TRUE(staging);
  ASSERT_TRUE(staging->resumed());
  ASSERT_TRUE(Run(*staging));
  ASSERT_TRUE(staging->Publish(false));
  ExpectWhole(dir / "out");
}

TEST_F(PackTest, AnotherLayoutStartsOver) {
  const fixtures::TempDir dir;
  {
    auto staging = Stage(dir / "out");
    ASSERT_TRUE(staging);
    ASSERT_TRUE(Run(*staging));
    staging->Keep();
  }
  files_.pop_back();
  auto staging = Stage(dir / "out");
  ASSERT_TRUE(staging);
  EXPECT_FALSE(staging->resumed());
  ASSERT_TRUE(Run(*staging));
  ASSERT_TRUE(staging->Publish(false));
  ExpectWhole(dir / "out");
  EXPECT_FALSE(fs::exists(dir / "out" / "overlays"));
}

// Kills a child process with SIGKILL at random points, over and over, until a run completes.
TEST_F(PackTest, SurvivesBeingKilledAtRandomPoints) {
  std::mt19937 random(7);
  for (int round = 0; round < 5; ++round) {
    const fixtures::TempDir dir;
    bool done = false;
    for (int attempt = 0; attempt < 200 && !done; ++attempt) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        auto staging = Stage(dir / "out");
        PackOptions options;
        options.memory = 1;  // small chunks: many points to be killed at
        if (!staging || !Run(*staging, options) || !staging->Publish(false)) _exit(1);
        _exit(0);
      }
      usleep(static_cast<useconds_t>(random() % (20'000u * static_cast<unsigned>(attempt + 1))));
      kill(child, SIGKILL);
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      done = WIFEXITED(status);
      if (done) {
        ASSERT_EQ(WEXITSTATUS(status), 0);
      }
      if (fs::exists(dir / "out")) break;  // killed after the rename
    }
    ASSERT_TRUE(fs::exists(dir / "out"));
    ExpectWhole(dir / "out");
  }
}

TEST_F(PackTest, AWriteThatFailsNamesTheFileAndLeavesNothing) {
  const fixtures::TempDir dir;
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {1'000'000, 1'000'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    auto staging = Stage(dir / "out");
    if (!staging) _exit(2);
    const auto result = Run(*staging);
    const bool right = !result && result.error().code == Code::kIo &&
                       result.error().message.find("write at offset") != std::string::npos;
    { const StagingDirectory gone = std::move(*staging); }
    _exit(right && fs::is_empty(dir.path()) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(PackTest, KeepsPartialOutputOnRequest) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("mixtral", dir / "source"));
  auto model = MoeModel::Open(dir / "source");
  ASSERT_TRUE(model);
  std::vector<SourceFile> gone = model->checkpoint().files();
  PlanOptions plan_options;
  plan_options.groups = 2;
  auto files = SliceSafetensors(*model, *MakePlan(*model, plan_options), {});
  ASSERT_TRUE(files);
  fs::resize_file(gone[0].path, gone[0].size - 1);
  for (const bool keep : {false, true}) {
    {
      auto staging = StagingDirectory::Start(dir / "out", "x");
      ASSERT_TRUE(staging);
      PackOptions options;
      options.keep_partial = keep;
      std::vector<OutputFile> outputs = *files;
      const auto result = Pack(gone, outputs, *staging, options);
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().code, Code::kCorrupt);
    }
    EXPECT_EQ(fs::exists(dir / "out.partial"), keep);
  }
}

TEST_F(PackTest, ASourceThatChangesDuringTheRunIsAnError) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir / "source"));
  const auto model = MoeModel::Open(dir / "source");
  ASSERT_TRUE(model);
  PlanOptions plan_options;
  plan_options.groups = 2;
  auto files = SliceSafetensors(*model, *MakePlan(*model, plan_options), {});
  ASSERT_TRUE(files);
  auto staging = StagingDirectory::Start(dir / "out", "x");
  ASSERT_TRUE(staging);
  PackOptions options;
  bool touched = false;
  options.progress = [&](uint64_t, uint64_t) {
    if (!std::exchange(touched, true)) {
      std::ofstream(model->checkpoint().files()[0].path, std::ios::binary | std::ios::app) << "x";
    }
  };
  const auto result = Pack(model->checkpoint().files(), *files, *staging, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kCorrupt);
  EXPECT_THAT(result.error().message, HasSubstr("changed while it was read"));
}

TEST_F(PackTest, RefusesBeforeTheFirstByteIfTheDiskIsTooSmall) {
  const fixtures::TempDir dir;
  files_[0].size = uint64_t{1} << 60;
  auto staging = Stage(dir / "out");
  ASSERT_TRUE(staging);
  const auto result = Run(*staging);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kIo);
  EXPECT_THAT(result.error().message, HasSubstr("free space: expected"));
  EXPECT_FALSE(fs::exists(staging->path() / files_[0].path));
}

TEST_F(PackTest, CountsWhatIsCopiedBesideTheOutputs) {
  const fixtures::TempDir dir;
  auto staging = Stage(dir / "out");
  ASSERT_TRUE(staging);
  PackOptions options;
  options.copied_later = uint64_t{1} << 60;
  const auto result = Run(*staging, options);
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, Code::kIo);
  EXPECT_THAT(result.error().message, HasSubstr("free space: expected 1.15 EB (1,152,921,504,"));
  EXPECT_THAT(result.error().hint, HasSubstr("nothing was written to "));
}

TEST(PackIdentity, DependsOnLayoutAndSources) {
  const std::vector<SourceFile> sources = {{.path = "a",
                                            .name = "a",
                                            .size = 1,
                                            .data_start = 0,
                                            .header_sha256 = "h",
                                            .identity = {},
                                            .tree = {}}};
  OutputFile file;
  file.path = "trunk";
  const std::string before = PackIdentity(sources, {file});
  EXPECT_EQ(PackIdentity(sources, {file}), before);
  std::vector<SourceFile> touched = sources;
  touched[0].identity = "other";
  EXPECT_NE(PackIdentity(touched, {file}), before);
  file.prefix = "x";
  EXPECT_NE(PackIdentity(sources, {file}), before);
}

TEST(PackIdentity, DependsOnTheVersionSoThatNoRunContinuesThatOfAnotherMoepack) {
  EXPECT_EQ(PackIdentity({}, {}), PackIdentity({}, {}, ToolVersion()));
  EXPECT_NE(PackIdentity({}, {}), PackIdentity({}, {}, "0.1.0"));
}

}  // namespace
}  // namespace moepack
