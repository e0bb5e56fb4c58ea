// The generator of fixtures: the same bytes every time, and checkpoints that libshard reads as
// intended.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "fixtures/bad_files.h"
#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/model/model.h"

namespace {

namespace fs = std::filesystem;

// Relative path -> content; a link reads "-> target".
std::map<std::string, std::string> ReadTree(const fs::path& dir) {
  std::map<std::string, std::string> tree;
  for (const auto& entry : fs::recursive_directory_iterator(dir)) {
    const std::string name =
        fs::relative(entry.path().parent_path(), dir) / entry.path().filename();
    const std::string key = fs::path(name).lexically_normal().string();
    if (entry.is_symlink()) {
      tree[key] = "-> " + fs::read_symlink(entry.path()).string();
    } else if (entry.is_regular_file()) {
      tree[key] = fixtures::ReadFile(entry.path());
    }
  }
  return tree;
}

fs::path Source() { return fs::path(MOEPACK_SOURCE_DIR); }

// ---- one test per layout --------------------------------------------------------------------

class LayoutTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fixtures::MakeCheckpoint(GetParam(), dir_.path()));
    spec_ = fixtures::DescribeCheckpoint(GetParam());
  }
  fixtures::TempDir dir_;
  fixtures::CheckpointSpec spec_;
};

TEST_P(LayoutTest, OpensAsItsFamilyWithTheExpertsOfEveryLayer) {
  const auto model = moepack::MoeModel::Open(dir_.path());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->family().name, spec_.family);
  EXPECT_EQ(model->config().layers, spec_.layers);
  EXPECT_TRUE(model->warnings().empty()) << model->warnings()[0];
  std::vector<uint32_t> layers;
  for (const moepack::MoeLayer& layer : model->layers()) {
    layers.push_back(layer.layer);
    EXPECT_EQ(layer.expert_count, spec_.experts) << "layer " << layer.layer;
    EXPECT_EQ(layer.mtp, layer.layer >= spec_.layers) << "layer " << layer.layer;
    const bool differ =
        std::string(GetParam()) == "nemotron-3-puzzle";  // in how many experts a token uses
    EXPECT_EQ(layer.top_k, differ && layer.layer == 3 ? 1u : spec_.top_k)
        << "layer " << layer.layer;
    EXPECT_GT(layer.expert_bytes, 0u);
  }
  EXPECT_EQ(layers, spec_.moe_layers);
}

TEST_P(LayoutTest, ReadsBackTheTensorsThatWereWritten) {
  const auto checkpoint = moepack::Checkpoint::Open(dir_.path());
  ASSERT_TRUE(checkpoint.has_value()) << checkpoint.error().message;
  ASSERT_EQ(checkpoint->tensors().size(), spec_.tensors.size());
  for (size_t i = 0; i < spec_.tensors.size(); ++i) {
    const moepack::TensorEntry& found = checkpoint->tensors()[i];
    EXPECT_EQ(found.name, spec_.tensors[i].name);
    EXPECT_EQ(found.dtype, spec_.tensors[i].dtype) << found.name;
    EXPECT_EQ(found.shape, spec_.tensors[i].shape) << found.name;
    EXPECT_EQ(found.bytes, spec_.tensors[i].bytes) << found.name;
    EXPECT_NE(found.format, nullptr) << found.name << ": " << found.dtype;
  }
}

// Written by hand and independently of the families' tables: the meaning of a piece of a name. The
// first matching row decides; names without any of these pieces are not checked.
struct Piece {
  const char* text;
  moepack::Part part;
};
constexpr Piece kPieces[] = {
    {"talker.", moepack::Part::kTrunk},        {"score_correction", moepack::Part::kRouter},
    {"tid2eid", moepack::Part::kRouter},       {"router", moepack::Part::kRouter},
    {"shared_expert", moepack::Part::kShared}, {"shared_mlp", moepack::Part::kShared},
    {"share_expert", moepack::Part::kShared},  {"chunk_experts", moepack::Part::kTrunk},
    {"experts", moepack::Part::kExpert},       {"switch_mlp", moepack::Part::kExpert},
    {"put_linear", moepack::Part::kExpert},    {"moe.up_proj", moepack::Part::kExpert},
    {"moe.down_proj", moepack::Part::kExpert}, {"mlp.gate.weight", moepack::Part::kRouter},
    {"attn", moepack::Part::kTrunk},           {"embed", moepack::Part::kTrunk},
    {"norm", moepack::Part::kTrunk},           {"vision", moepack::Part::kTrunk},
    {"visual", moepack::Part::kTrunk},         {"mamba", moepack::Part::kTrunk},
    {"lm_head", moepack::Part::kTrunk},
};

TEST_P(LayoutTest, PutsEveryTensorIntoThePartGivenByItsName) {
  const auto model = moepack::MoeModel::Open(dir_.path());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  ASSERT_EQ(model->tensors().size(), spec_.tensors.size());
  for (const moepack::ModelTensor& tensor : model->tensors()) {
    const std::string& name = model->entry(tensor).name;
    const Piece* piece = std::find_if(std::begin(kPieces), std::end(kPieces), [&](const Piece& p) {
      return name.find(p.text) != std::string::npos;
    });
    if (piece == std::end(kPieces)) continue;
    EXPECT_EQ(moepack::PartName(tensor.part), moepack::PartName(piece->part)) << name;
  }
}

TEST_P(LayoutTest, HasARouterExpertsAndATrunk) {
  const auto model = moepack::MoeModel::Open(dir_.path());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  std::map<moepack::Part, std::set<int>> layers;
  for (const moepack::ModelTensor& tensor : model->tensors()) {
    if (tensor.layer) layers[tensor.part].insert(static_cast<int>(*tensor.layer));
  }
  const std::set<int> expected(spec_.moe_layers.begin(), spec_.moe_layers.end());
  EXPECT_EQ(layers[moepack::Part::kExpert], expected);
  EXPECT_EQ(layers[moepack::Part::kRouter], expected);
  EXPECT_FALSE(layers[moepack::Part::kTrunk].empty());
}

std::string TestName(const testing::TestParamInfo<std::string>& one) {
  std::string name = one.param;
  std::replace_if(
      name.begin(), name.end(), [](unsigned char letter) { return std::isalnum(letter) == 0; },
      '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Every, LayoutTest, testing::ValuesIn(fixtures::Layouts()), TestName);

// ---- the generator --------------------------------------------------------------------------

TEST(Fixtures, EveryFamilyHasALayout) {
  std::set<std::string> covered, families;
  for (const fixtures::Layout& layout : fixtures::AllLayouts()) covered.insert(layout.family);
  for (const moepack::Family& family : moepack::AllFamilies()) families.insert(family.name);
  EXPECT_EQ(covered, families);
}

TEST(Fixtures, SameOptionsGiveTheSameBytesAndAnotherSeedOthers) {
  const fixtures::TempDir first, second, other;
  ASSERT_TRUE(fixtures::MakeCheckpoint("deepseek-v3", first.path(), {.seed = 7}));
  ASSERT_TRUE(fixtures::MakeCheckpoint("deepseek-v3", second.path(), {.seed = 7}));
  ASSERT_TRUE(fixtures::MakeCheckpoint("deepseek-v3", other.path(), {.seed = 8}));
  EXPECT_EQ(ReadTree(first.path()), ReadTree(second.path()));
  EXPECT_NE(ReadTree(first.path()), ReadTree(other.path()));
}

TEST(Fixtures, BytesAreTheSameOnEveryMachine) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("mixtral", dir.path(), {.shards = 1}));
  EXPECT_EQ(moepack::Sha256Hex(fixtures::ReadFile(dir / "model.safetensors")),
            "f6126ad441a5f7c28e9946fc939c371796ab5acab690975ec63408db579e1de8");
}

TEST(Fixtures, ContentsDoNotDependOnTheNumberOfShards) {
  const fixtures::TempDir one, three;
  ASSERT_TRUE(fixtures::MakeCheckpoint("olmoe", one.path(), {.shards = 1}));
  ASSERT_TRUE(fixtures::MakeCheckpoint("olmoe", three.path(), {.shards = 3}));
  auto contents = [](const fs::path& dir) {
    std::map<std::string, std::string> all;
    const auto checkpoint = moepack::Checkpoint::Open(dir);
    EXPECT_TRUE(checkpoint.has_value());
    for (const moepack::TensorEntry& tensor : checkpoint->tensors()) {
      const std::string file = fixtures::ReadFile(checkpoint->files()[tensor.file].path);
      all[tensor.name] = file.substr(tensor.offset, tensor.bytes);
    }
    return all;
  };
  EXPECT_FALSE(fs::exists(one / "model.safetensors.index.json"));
  EXPECT_TRUE(fs::exists(three / "model-00003-of-00003.safetensors"));
  EXPECT_EQ(contents(one.path()), contents(three.path()));
}

TEST(Fixtures, ShardsWithoutAnIndexOpenAsTheSameModel) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("qwen3-moe", dir.path(), {.shards = 3, .index = false}));
  EXPECT_FALSE(fs::exists(dir / "model.safetensors.index.json"));
  const auto model = moepack::MoeModel::Open(dir.path());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->checkpoint().files().size(), 3u);
  EXPECT_EQ(model->layers().size(), 3u);
}

TEST(Fixtures, SizesCanBeChosen) {
  const fixtures::TempDir dir;
  const fixtures::Options options{
      .layers = 5, .experts = 3, .top_k = 1, .hidden = 8, .ff = 4, .vocabulary = 10};
  ASSERT_TRUE(fixtures::MakeCheckpoint("mixtral", dir.path(), options));
  const auto model = moepack::MoeModel::Open(dir.path());
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->layers().size(), 5u);
  EXPECT_EQ(model->max_experts(), 3u);
  EXPECT_EQ(model->layers()[0].expert_bytes, 3u * 8 * 4 * 2);
}

TEST(Fixtures, AnUnknownLayoutIsRefused) {
  const fixtures::TempDir dir;
  EXPECT_FALSE(fixtures::MakeCheckpoint("gpt-2", dir / "model"));
  EXPECT_FALSE(fs::exists(dir / "model"));
}

TEST(Fixtures, WeightShapesHoldTheirShapeAndIdTablesHoldExpertIds) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::MakeCheckpoint("kimi-k2.5", dir / "kimi", {.hidden = 128}));
  ASSERT_TRUE(fixtures::MakeCheckpoint("deepseek-v4", dir / "v4", {.experts = 5}));
  auto values = [](const fs::path& source, const std::string& name) {
    const auto checkpoint = moepack::Checkpoint::Open(source);
    const moepack::TensorEntry* tensor = checkpoint->Find(name);
    return fixtures::ReadFile(checkpoint->files()[tensor->file].path)
        .substr(tensor->offset, tensor->bytes);
  };
  const std::string shape =
      values(dir / "kimi", "language_model.model.layers.1.mlp.experts.0.down_proj.weight_shape");
  int32_t pair[2];
  ASSERT_EQ(shape.size(), sizeof(pair));
  std::memcpy(pair, shape.data(), sizeof(pair));
  EXPECT_EQ(pair[0], 128);
  EXPECT_EQ(pair[1], 64);
  const std::string ids = values(dir / "v4", "layers.0.ffn.gate.tid2eid");
  std::set<int64_t> seen;
  for (size_t at = 0; at < ids.size(); at += 8) {
    int64_t id = 0;
    std::memcpy(&id, ids.data() + at, sizeof(id));
    seen.insert(id);
  }
  EXPECT_EQ(seen, (std::set<int64_t>{0, 1, 2, 3, 4}));
}

TEST(Fixtures, OptionsForBytesAndTensorsComeCloseToWhatWasAsked) {
  for (const uint64_t wanted : {uint64_t{50'000'000}, uint64_t{2'000'000'000}}) {
    const auto spec = fixtures::DescribeCheckpoint("qwen3-moe", fixtures::OptionsForBytes(wanted));
    uint64_t bytes = 0;
    for (const fixtures::TensorHead& tensor : spec.tensors) bytes += tensor.bytes;
    EXPECT_NEAR(static_cast<double>(bytes), static_cast<double>(wanted),
                0.1 * static_cast<double>(wanted));
  }
  const auto spec = fixtures::DescribeCheckpoint("qwen3-moe", fixtures::OptionsForTensors(100'000));
  EXPECT_NEAR(static_cast<double>(spec.tensors.size()), 100'000.0, 1000.0);
}

TEST(TempDir, IsEmptyAtFirstAndGoneAtTheEnd) {
  fs::path path;
  {
    const fixtures::TempDir dir;
    path = dir.path();
    EXPECT_TRUE(fs::is_empty(path));
    ASSERT_TRUE(fixtures::WriteFile(dir / "x", "1"));
  }
  EXPECT_FALSE(fs::exists(path));
}

// ---- what is committed ----------------------------------------------------------------------

TEST(CommittedFixtures, BadFilesAreWhatTheGeneratorMakes) {
  const fixtures::TempDir dir;
  ASSERT_TRUE(fixtures::WriteBadFiles(dir.path()));
  const auto made = ReadTree(dir.path());
  const auto committed = ReadTree(Source() / "fixtures" / "bad");
  for (const auto& [path, bytes] : made) {
    ASSERT_EQ(committed.count(path), 1u) << path << ": run make-fixtures --bad fixtures/bad";
    EXPECT_TRUE(committed.at(path) == bytes) << path << " differs from what the generator makes";
  }
  EXPECT_EQ(committed.size(), made.size()) << "a file under fixtures/bad that nothing generates";
}

TEST(CommittedFixtures, ReadmeHasTheTableOfBadFiles) {
  const std::string readme = fixtures::ReadFile(Source() / "fixtures" / "README.md");
  EXPECT_NE(readme.find(fixtures::BadFilesTable()), std::string::npos)
      << "replace the table by the output of make-fixtures --bad-table";
}

TEST(CommittedFixtures, TinyMoeOpensAndItsOverlayNamesTwoExpertsPerLayer) {
  const auto model = moepack::MoeModel::Open(Source() / "fixtures" / "tiny-moe");
  ASSERT_TRUE(model.has_value()) << model.error().message;
  EXPECT_EQ(model->family().name, "qwen3-moe");
  ASSERT_EQ(model->layers().size(), 3u);
  const auto overlay =
      nlohmann::json::parse(fixtures::ReadFile(Source() / "fixtures" / "tiny-overlay.json"));
  std::set<std::string> distinct;
  for (const moepack::MoeLayer& layer : model->layers()) {
    EXPECT_EQ(layer.expert_count, 16u);
    const std::string ids = overlay.at("layers").at(std::to_string(layer.layer));
    EXPECT_EQ(std::count(ids.begin(), ids.end(), ','), 1) << ids;
    distinct.insert(ids);
  }
  EXPECT_EQ(distinct.size(), 3u);
}

}  // namespace
