// Models that are in no directory: everything is reached through their tree, and a source that
// fails or changes ends the run with its name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/memory_tree.h"
#include "libshard/pack/pack.h"
#include "manifest/verify/verify.h"
#include "manifest/write/bundle.h"

namespace moepack {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kAddress = "memory://model";
constexpr const char* kShard = "model-00002-of-00002.safetensors";

std::shared_ptr<MemoryTree> InMemory(const fs::path& directory) {
  auto tree = std::make_shared<MemoryTree>(kAddress);
  for (const auto& entry : fs::directory_iterator(directory)) {
    tree->Add(entry.path().filename().string(), fixtures::ReadFile(entry.path()));
  }
  return tree;
}

// Wraps another source, until something goes wrong with it.
class TroubledSource : public ByteSource {
 public:
  explicit TroubledSource(ByteSourcePtr base) : base_(std::move(base)) {}
  const std::string& name() const override { return base_->name(); }
  uint64_t size() const override { return base_->size(); }
  const std::string& identity() const override { return base_->identity(); }
  Status ReadAt(uint64_t offset, std::span<std::byte> out) const override {
    if (!fails) return base_->ReadAt(offset, out);
    return Error{Code::kIo, name() + ": read: connection reset"};
  }
  Status CheckUnchanged() const override {
    return changed ? Status(ChangedWhileRead(name())) : Ok();
  }
  bool fails = false, changed = false;

 private:
  ByteSourcePtr base_;
};

class SourceTrees : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir_ / "model"));
    tree_ = InMemory(dir_ / "model");
    troubled_ = std::make_shared<TroubledSource>(*tree_->Open(kShard));
    tree_->Add(kShard, troubled_);
  }
  Result<MoeModel> Open() const { return MoeModel::Open(Source{kAddress, tree_, ""}); }

  static Plan PlanOf(const MoeModel& model) {
    PlanOptions options;
    options.groups = 2;
    return MakePlan(model, options).value();
  }
  static Result<std::vector<FileDigests>> Digests(const MoeModel& model, bool gguf) {
    manifest::WriteOptions options;
    if (gguf) options.gguf.emplace();
    SHARD_TRY(const manifest::WritePlan files,
              manifest::PlanDistribution(model, PlanOf(model), options));
    return DigestOutputs(model.checkpoint().files(), files.files, {});
  }

  fixtures::TempDir dir_;
  std::shared_ptr<MemoryTree> tree_;
  std::shared_ptr<TroubledSource> troubled_;
};

TEST_F(SourceTrees, AModelInMemoryEqualsTheOneOnDisk) {
  const auto memory = Open();
  ASSERT_TRUE(memory) << memory.error().message;
  const MoeModel disk = MoeModel::Open(dir_ / "model").value();
  EXPECT_EQ(memory->Version(""), disk.Version(""));
  EXPECT_EQ(memory->tensors().size(), disk.tensors().size());
  EXPECT_EQ(memory->config_text(), disk.config_text());
  EXPECT_THAT(memory->config_path().string(), StartsWith(kAddress));
  EXPECT_THAT(memory->checkpoint().files()[0].path.string(), StartsWith(kAddress));
  for (const bool gguf : {false, true}) {
    const auto a = Digests(*memory, gguf), b = Digests(disk, gguf);
    ASSERT_TRUE(a) << a.error().message;
    ASSERT_TRUE(b) << b.error().message;
    ASSERT_EQ(a->size(), b->size());
    for (size_t i = 0; i < a->size(); ++i) EXPECT_EQ((*a)[i].sha256, (*b)[i].sha256);
  }
}

TEST_F(SourceTrees, ADistributionWrittenFromMemoryVerifiesAgainstTheDisk) {
  const MoeModel model = Open().value();
  const std::string out = (dir_ / "out").string();
  const auto written = manifest::WriteDistribution(model, PlanOf(model), out, {});
  ASSERT_TRUE(written) << written.error().message;
  EXPECT_FALSE(written->manifest.assets.empty());
  manifest::VerifyOptions options;
  options.against = (dir_ / "model").string();
  const auto verified = manifest::VerifyDistribution(out, options);
  ASSERT_TRUE(verified) << verified.error().message;
  EXPECT_TRUE(verified->passed());
}

TEST_F(SourceTrees, NamesAMissingFileByItsAddress) {
  auto without = std::make_shared<MemoryTree>(kAddress);
  const auto names = tree_->List("", "");
  for (const std::string& name : *names) {
    if (name != kShard) without->Add(name, *tree_->Open(name));
  }
  const auto model = MoeModel::Open(Source{kAddress, without, ""});
  ASSERT_FALSE(model);
  EXPECT_EQ(model.error().code, Code::kNotFound);
  EXPECT_THAT(model.error().message, StartsWith(std::string(kAddress) + "/" + kShard));
}

TEST_F(SourceTrees, ASourceThatFailsDuringAReadEndsTheRunAndIsNamed) {
  const MoeModel model = Open().value();
  troubled_->fails = true;
  const auto digests = Digests(model, false);
  ASSERT_FALSE(digests);
  EXPECT_EQ(digests.error().code, Code::kIo);
  EXPECT_THAT(digests.error().message, StartsWith(std::string(kAddress) + "/" + kShard));
  EXPECT_EQ(Open().error().code, Code::kIo);
}

TEST_F(SourceTrees, ASourceThatChangesDuringAReadEndsTheRunAndIsNamed) {
  const MoeModel model = Open().value();
  troubled_->changed = true;
  const auto digests = Digests(model, false);
  ASSERT_FALSE(digests);
  EXPECT_EQ(digests.error().code, Code::kCorrupt);
  EXPECT_THAT(digests.error().message, HasSubstr(std::string(kShard) + ": the file was changed"));
}

TEST_F(SourceTrees, NoticesAnotherSourceUnderTheSameName) {
  const MoeModel model = Open().value();
  EXPECT_TRUE(model.checkpoint().CheckUnchanged());
  tree_->Add(kShard, "another file");
  EXPECT_EQ(model.checkpoint().CheckUnchanged().error().code, Code::kCorrupt);
  EXPECT_EQ(Digests(model, false).error().code, Code::kCorrupt);
}

}  // namespace
}  // namespace moepack
