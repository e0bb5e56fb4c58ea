// The same tensors in other files: experts in descending order, companions in other shards than
// their weights, shards with the names that real checkpoints have. None of this affects the output.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <map>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/format/checkpoint.h"
#include "tests/conformance/bundle_pieces.h"
#include "tests/tools/run_moepack.h"

namespace {

using moepack::cli::ToolRun;
using moepack::cli::Workspace;
namespace fs = std::filesystem;

// As in shared/real, golden/convert and on the Hub: numbers of five, six or one digits, from 0 or
// 1, with a doubled extension, with additional words, files beside the numbered ones, folders.
constexpr const char* kShards[] = {
    "model-00001-of-000163.safetensors",  "model.safetensors-00001-of-00002.safetensors",
    "model-1-of-5.safetensors",           "model-00000-of-00002.safetensors",
    "pytorch_model.fp8.safetensors",      "mtp.safetensors",
    "experts/layer 0 (down).safetensors",
};

// Weights in one shard, each kind of companion in another, and experts spread by id.
std::string ShardOf(const std::string& name, size_t number) {
  if (name.ends_with("_scale_inv") || name.ends_with("_scales")) return kShards[4];
  if (name.ends_with("_shape") || name.ends_with("_bias")) return kShards[5];
  if (name.ends_with("_scale")) return kShards[6];
  return kShards[number % 4];
}

// Writes the tensors of `from` in descending order of their offsets, in the shards of ShardOf.
void Reshard(const fs::path& from, const fs::path& to) {
  const auto checkpoint = moepack::Checkpoint::Open(from);
  ASSERT_TRUE(checkpoint) << checkpoint.error().message;
  std::map<std::string, std::vector<fixtures::RawTensor>> shards;
  nlohmann::json map;
  const std::vector<moepack::TensorEntry>& tensors = checkpoint->tensors();
  for (size_t i = tensors.size(); i-- > 0;) {
    const moepack::TensorEntry& entry = tensors[i];
    const std::string file = fixtures::ReadFile(checkpoint->files()[entry.file].path);
    const std::string shard = ShardOf(entry.name, i);
    shards[shard].push_back(
        {entry.name, entry.dtype, entry.shape, file.substr(entry.offset, entry.bytes)});
    map[entry.name] = shard;
  }
  fs::create_directories(to / "experts");
  for (const auto& [name, list] : shards) {
    ASSERT_TRUE(fixtures::WriteSafetensors(to / name, list));
  }
  const nlohmann::json index = {{"metadata", nlohmann::json::object()}, {"weight_map", map}};
  fixtures::WriteFile(to / "model.safetensors.index.json", index.dump());
  for (const char* name : {"config.json", "tokenizer.json"}) fs::copy(from / name, to / name);
}

class OddShards : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::MakeCheckpoint(GetParam(), workspace_ / "plain"));
    ASSERT_NO_FATAL_FAILURE(Reshard(workspace_ / "plain", workspace_ / "odd"));
    fixtures::WriteFile(workspace_ / "groups.json",
                        R"({"groups": [{"*": "3,0"}, {"*": "2,1"}], "scheme": "odd"})");
  }

  // The pieces of a distribution of `source` with `options`.
  split::Pieces Build(const std::string& source, const std::string& options) const {
    const std::string out = moepack::Cat("dist-", count_++);
    const ToolRun run =
        workspace_.Moepack("build " + source + " --partition explicit:groups.json --no-verify -o " +
                           out + " " + options);
    EXPECT_EQ(run.status, 0) << run.err;
    const ToolRun proof = workspace_.Moepack("verify " + out + " --against " + source);
    EXPECT_EQ(proof.status, 0) << proof.out << proof.err;
    return split::PiecesOf(workspace_ / out);
  }

  Workspace workspace_;
  mutable int count_ = 0;
};

TEST_P(OddShards, MakeTheSameBundles) {
  for (const std::string options : {"", "--format gguf"}) {
    const split::Pieces plain = Build("plain", options);
    split::ExpectSamePieces(plain, Build("odd", options));
  }
}

TEST_P(OddShards, MakeTheSameBundlesInSmallParts) {
  for (const std::string options : {"", "--format gguf"}) {
    const split::Pieces plain = Build("plain", options);
    split::ExpectSamePieces(plain, Build("odd", options + " --max-part-size 20k"));
  }
}

// Explicit experts, FP8 with block scales, int4 triples, MXFP4 with scales and biases, packed ones.
INSTANTIATE_TEST_SUITE_P(Layouts, OddShards,
                         testing::Values("qwen3-moe", "deepseek-v3", "minimax-m2", "kimi-k2.5",
                                         "gpt-oss", "llama-4", "granite-moe", "qwen3.5-moe"),
                         [](const auto& one) {
                           std::string name = one.param;
                           for (char& c : name) {
                             c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
                           }
                           return name;
                         });

}  // namespace
