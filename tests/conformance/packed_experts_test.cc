// The experts of a node, number by number against the source through index arithmetic written here
// for each layout: packed ones in all four forms, and one tensor per expert.
#include <gtest/gtest.h>

#include <array>
#include <functional>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/format/checkpoint.h"
#include "manifest/document/manifest.h"
#include "tests/conformance/split_checkpoint.h"
#include "tests/tools/run_moepack.h"

namespace {

using moepack::cli::ToolRun;
using moepack::cli::Workspace;
namespace fs = std::filesystem;

// Sizes that differ, so that no two axes can be mistaken for each other.
constexpr uint64_t kHidden = 64, kWidth = 96, kExperts = 7;

struct PackedTensor {
  std::string dtype, bytes;
  std::vector<uint64_t> shape;
};

class PackedTensors {
 public:
  explicit PackedTensors(const fs::path& path)
      : checkpoint_(moepack::Checkpoint::Open(path).value()) {
    for (const auto& file : checkpoint_.files()) files_.push_back(fixtures::ReadFile(file.path));
  }
  PackedTensor Get(const std::string& name) const {
    const moepack::TensorEntry* entry = checkpoint_.Find(name);
    EXPECT_NE(entry, nullptr) << name;
    if (entry == nullptr) return {};
    return {entry->dtype, files_[entry->file].substr(entry->offset, entry->bytes), entry->shape};
  }

 private:
  moepack::Checkpoint checkpoint_;
  std::vector<std::string> files_;
};

// The index of row `r`, column `c` of a matrix of expert `e` in its source tensor, in numbers.
using Place = std::function<uint64_t(uint64_t e, uint64_t r, uint64_t c)>;

struct Matrix {
  const char* target;  // "gate", "up", "down"
  std::string source;  // {E} is the expert's id; without it the tensor is packed
  Place place;
};

struct Layout {
  std::string name, at;
  uint32_t layer;  // one with experts
  std::array<Matrix, 3> matrices;
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

Layout Explicit() {
  const Place own = [](uint64_t, uint64_t r, uint64_t c) { return r * kHidden + c; };
  const Place down = [](uint64_t, uint64_t r, uint64_t c) { return r * kWidth + c; };
  return {"qwen3-moe",
          "model.layers.1.mlp.experts.{E}.",
          1,
          {{{"gate", "gate_proj.weight", own},
            {"up", "up_proj.weight", own},
            {"down", "down_proj.weight", down}}}};
}

// [E, 2 F, D]: gate above up; [E, D, F].
Layout Stacked(const std::string& name, const std::string& at, const std::string& gate_up,
               const std::string& down) {
  return {name,
          at,
          1,
          {{{"gate", gate_up,
             [](uint64_t e, uint64_t r, uint64_t c) { return (e * 2 * kWidth + r) * kHidden + c; }},
            {"up", gate_up,
             [](uint64_t e, uint64_t r, uint64_t c) {
               return (e * 2 * kWidth + kWidth + r) * kHidden + c;
             }},
            {"down", down,
             [](uint64_t e, uint64_t r, uint64_t c) { return (e * kHidden + r) * kWidth + c; }}}}};
}

// [E, D, 2 F]: gate beside up, both transposed; [E, F, D].
Layout Llama4() {
  return {"llama-4",
          "language_model.model.layers.3.feed_forward.experts.",
          3,
          {{{"gate", "gate_up_proj",
             [](uint64_t e, uint64_t r, uint64_t c) { return (e * kHidden + c) * 2 * kWidth + r; }},
            {"up", "gate_up_proj",
             [](uint64_t e, uint64_t r, uint64_t c) {
               return (e * kHidden + c) * 2 * kWidth + kWidth + r;
             }},
            {"down", "down_proj",
             [](uint64_t e, uint64_t r, uint64_t c) { return (e * kWidth + c) * kHidden + r; }}}}};
}

class PackedExperts : public testing::Test {
 protected:
  // Distributions with scattered ids in no particular order, and their first nodes.
  void Make(const std::string& layout, const std::string& format) {
    fixtures::Options sizes;
    sizes.experts = kExperts;
    sizes.hidden = kHidden;
    sizes.ff = kWidth;
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, workspace_ / "source", sizes));
    fixtures::WriteFile(workspace_ / "groups.json",
                        R"({"groups": [{"*": "6,1,3"}, {"*": "0,5,2"}]})");
    fixtures::WriteFile(workspace_ / "overlay.json", R"({"version": "v", "layers": {"*": "4"}})");
    Run("build source --partition explicit:groups.json --overlay-file overlay.json --no-verify "
        "-o dist --format " +
        format);
    const bool gguf = format == "gguf";
    Run(std::string("assemble dist --group 0 -o node") + (gguf ? " --layout single" : ""));
  }
  void Run(const std::string& command) const {
    const ToolRun run = workspace_.Moepack(command);
    ASSERT_EQ(run.status, 0) << command << "\n" << run.err;
  }
  const std::vector<uint64_t> ids_ = {1, 3, 4, 6};  // of group 0 with the overlay
  Workspace workspace_;
};

// The two bytes of every number of the experts `ids` of a matrix.
std::string PackedExpertsExpected(const PackedTensors& source, const Layout& layout,
                                  const Matrix& matrix, const std::vector<uint64_t>& ids) {
  const bool down = matrix.target == std::string("down");
  const uint64_t rows = down ? kHidden : kWidth, columns = down ? kWidth : kHidden;
  std::string bytes;
  for (const uint64_t id : ids) {
    std::string name = layout.at + matrix.source;
    const size_t token = name.find("{E}");
    if (token != std::string::npos) name.replace(token, 3, std::to_string(id));
    const PackedTensor tensor = source.Get(name);
    for (uint64_t i = 0; i < rows * columns; ++i) {
      bytes += tensor.bytes.substr(2 * matrix.place(id, i / columns, i % columns), 2);
    }
  }
  return bytes;
}

class PackedLayouts : public PackedExperts, public testing::WithParamInterface<Layout> {};

TEST_P(PackedLayouts, AGgufNodeHoldsThePackedTensorsOfTheSource) {
  const Layout& layout = GetParam();
  ASSERT_NO_FATAL_FAILURE(Make(layout.name, "gguf"));
  const PackedTensors source(workspace_ / "source"), node(workspace_ / "node/node.gguf");
  for (const Matrix& matrix : layout.matrices) {
    const PackedTensor made =
        node.Get(moepack::Cat("blk.", layout.layer, ".ffn_", matrix.target, "_exps.weight"));
    EXPECT_EQ(made.dtype, "bf16");
    EXPECT_EQ(made.shape[0], ids_.size());
    EXPECT_TRUE(made.bytes == PackedExpertsExpected(source, layout, matrix, ids_)) << matrix.target;
  }
}

INSTANTIATE_TEST_SUITE_P(All, PackedLayouts,
                         testing::Values(Explicit(),
                                         Stacked("qwen3.5-moe",
                                                 "model.language_model.layers.1.mlp.experts.",
                                                 "gate_up_proj", "down_proj"),
                                         Stacked("granite-moe", "model.layers.1.block_sparse_moe.",
                                                 "input_linear.weight", "output_linear.weight"),
                                         Llama4()),
                         [](const auto& one) {
                           std::string name = one.param.name;
                           for (char& c : name) c = c == '-' || c == '.' ? '_' : c;
                           return name;
                         });

// MXFP4: 32 numbers are a scale and 16 bytes of codes, which GGUF pairs differently.
std::string Repacked(const std::string& blocks, const std::string& scales, uint64_t block) {
  const auto code = [&](uint64_t i) {
    return (static_cast<uint8_t>(blocks[block * 16 + i / 2]) >> (4 * (i % 2))) & 15;
  };
  std::string out = scales.substr(block, 1);
  for (uint64_t i = 0; i < 16; ++i) out += static_cast<char>(code(i) | code(i + 16) << 4);
  return out;
}

// BF16 as F32.
std::string Widened(const std::string& bytes, uint64_t index) {
  return std::string(2, '\0') + bytes.substr(2 * index, 2);
}

// Rows of gate and up alternate, in blocks, scales and biases alike.
TEST_F(PackedExperts, AGptOssGgufNodeTakesEveryOtherRowForGateAndUp) {
  ASSERT_NO_FATAL_FAILURE(Make("gpt-oss", "gguf"));
  const PackedTensors source(workspace_ / "source"), node(workspace_ / "node/node.gguf");
  const std::string at = "model.layers.1.mlp.experts.gate_up_proj_";
  const PackedTensor blocks = source.Get(at + "blocks"), scales = source.Get(at + "scales"),
                     bias = source.Get(at + "bias");
  for (const uint64_t up : {0, 1}) {
    std::string weights, biases;
    for (const uint64_t id : ids_) {
      for (uint64_t row = 0; row < kWidth; ++row) {
        const uint64_t from = id * 2 * kWidth + 2 * row + up;
        for (uint64_t i = 0; i < kHidden / 32; ++i) {
          weights += Repacked(blocks.bytes, scales.bytes, from * (kHidden / 32) + i);
        }
        biases += Widened(bias.bytes, from);
      }
    }
    const std::string target = moepack::Cat("blk.1.ffn_", up == 1 ? "up" : "gate", "_exps.");
    EXPECT_EQ(node.Get(target + "weight").dtype, "mxfp4");
    EXPECT_TRUE(node.Get(target + "weight").bytes == weights) << target;
    EXPECT_TRUE(node.Get(target + "bias").bytes == biases) << target;
  }
}

// The expert axis is the slowest one of every packed tensor, biases and scales included.
TEST_F(PackedExperts, SafetensorsNodesHoldSlicesOfTheSlowestAxis) {
  const std::pair<const char*, std::vector<std::string>> layouts[] = {
      {"qwen3.5-moe",
       {"model.language_model.layers.1.mlp.experts.gate_up_proj",
        "model.language_model.layers.1.mlp.experts.down_proj"}},
      {"granite-moe",
       {"model.layers.1.block_sparse_moe.input_linear.weight",
        "model.layers.1.block_sparse_moe.output_linear.weight",
        "model.layers.1.block_sparse_moe.router.layer.weight"}},
      {"llama-4",
       {"language_model.model.layers.1.feed_forward.experts.gate_up_proj",
        "language_model.model.layers.1.feed_forward.experts.down_proj"}},
      {"gpt-oss",
       {"model.layers.0.mlp.experts.gate_up_proj_blocks",
        "model.layers.0.mlp.experts.gate_up_proj_scales",
        "model.layers.0.mlp.experts.gate_up_proj_bias", "model.layers.0.mlp.experts.down_proj_bias",
        "model.layers.0.mlp.router.bias"}}};
  for (const auto& [layout, names] : layouts) {
    SCOPED_TRACE(layout);
    for (const char* old : {"source", "dist", "node"}) fs::remove_all(workspace_ / old);
    ASSERT_NO_FATAL_FAILURE(Make(layout, "safetensors"));
    const PackedTensors source(workspace_ / "source"), node(workspace_ / "node");
    for (const std::string& name : names) {
      const PackedTensor whole = source.Get(name), cut = node.Get(name);
      ASSERT_EQ(whole.shape[0], kExperts) << name;
      EXPECT_EQ(cut.shape[0], ids_.size()) << name;
      const uint64_t slice = whole.bytes.size() / kExperts;
      std::string expected;
      for (const uint64_t id : ids_) expected += whole.bytes.substr(id * slice, slice);
      EXPECT_TRUE(cut.bytes == expected) << name;
    }
  }
}

}  // namespace
