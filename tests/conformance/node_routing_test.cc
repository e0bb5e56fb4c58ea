// A node computes the same routing as masking: the reference router on the real rows of
// fixtures/tiny-moe, whole and masked, against the same router on the rows that a node keeps.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <nlohmann/json.hpp>

#include "fixtures/numbers.h"
#include "fixtures/temp_dir.h"
#include "manifest/node/assemble.h"
#include "runtime-shim/model/router.h"
#include "tests/conformance/split_checkpoint.h"

namespace moepack::manifest {
namespace {

constexpr uint32_t kTokens = 200;
const std::string kSource = MOEPACK_SOURCE_DIR "/fixtures/tiny-moe";

// Rows of a BF16 matrix as floats.
using Rows = std::vector<std::vector<float>>;

Rows ReadRouter(const MoeModel& model, uint32_t layer) {
  const std::string name = Cat("model.layers.", layer, ".mlp.gate.weight");
  const TensorEntry* entry = model.checkpoint().Find(name);
  if (entry == nullptr || entry->dtype != "BF16" || entry->shape.size() != 2) {
    ADD_FAILURE() << name;
    return {};
  }
  const std::string file = fixtures::ReadFile(model.checkpoint().files()[entry->file].path);
  Rows rows(entry->shape[0], std::vector<float>(entry->shape[1]));
  const char* at = file.data() + entry->offset;
  for (std::vector<float>& row : rows) {
    for (float& value : row) {
      uint16_t high = 0;
      std::memcpy(&high, at, sizeof high);
      value = std::bit_cast<float>(static_cast<uint32_t>(high) << 16);
      at += sizeof high;
    }
  }
  return rows;
}

// Numbers from -1 to 1 with 23 bits.
std::vector<float> HiddenVector(fixtures::Numbers& numbers, size_t size) {
  std::vector<float> hidden(size);
  for (float& value : hidden) {
    value = static_cast<float>(static_cast<int32_t>(numbers.Next() >> 40) - (1 << 23)) / (1 << 23);
  }
  return hidden;
}

std::vector<float> Logits(const Rows& router, const std::vector<float>& hidden) {
  std::vector<float> logits;
  for (const std::vector<float>& row : router) {
    float sum = 0;
    for (size_t i = 0; i < row.size(); ++i) sum += row[i] * hidden[i];
    logits.push_back(sum);
  }
  return logits;
}

// Position i of a layer's list in moepack_node.json is the node's expert i.
ExpertIds NodeExperts(const split::fs::path& node, uint32_t layer) {
  const auto experts =
      nlohmann::json::parse(fixtures::ReadFile(node / "moepack_node.json"))["experts"];
  const std::string key = experts.contains("*") ? "*" : std::to_string(layer);
  const auto ids = ParseIds("moepack_node.json", experts[key].get<std::string>(), 15);
  EXPECT_TRUE(ids) << ids.error().message;
  return ids ? *ids : ExpertIds();
}

class NodeRouting : public testing::TestWithParam<const char*> {
 protected:
  static void SetUpTestSuite() {
    dir_ = std::make_unique<fixtures::TempDir>();
    const auto model = MoeModel::Open(kSource);
    ASSERT_TRUE(model) << model.error().message;
    PlanOptions options;
    options.groups = 3;
    options.overlay_file = MOEPACK_SOURCE_DIR "/fixtures/tiny-overlay.json";
    const auto plan = MakePlan(*model, options);
    ASSERT_TRUE(plan) << plan.error().message;
    ASSERT_TRUE(WriteDistribution(*model, *plan, Path("dist"), {}));
    for (uint32_t group = 0; group < 3; ++group) {
      AssembleOptions node;
      node.group = group;
      const auto report = AssembleNode(Path("dist"), Path(Cat("node", group)), node);
      ASSERT_TRUE(report) << report.error().message;
    }
  }
  static void TearDownTestSuite() { dir_.reset(); }
  static std::string Path(const std::string& name) { return (*dir_ / name).string(); }

  // Whether masked and cut router agree on one token, to the last bit.
  static void ExpectSameChoice(const std::vector<float>& whole, const std::vector<float>& cut,
                               const ExpertIds& eligible, Routing spec) {
    spec.expert_count = static_cast<uint32_t>(whole.size());
    const auto masked = runtime::SelectExperts(whole, {}, spec, eligible);
    ASSERT_TRUE(masked) << masked.error().message;
    ExpertIds all;
    for (uint32_t id = 0; id < cut.size(); ++id) all.push_back(id);
    spec.expert_count = static_cast<uint32_t>(cut.size());
    const auto node = runtime::SelectExperts(cut, {}, spec, all);
    ASSERT_TRUE(node) << node.error().message;
    ExpertIds ids;
    for (const uint32_t id : node->ids) ids.push_back(eligible.at(id));
    EXPECT_EQ(ids, masked->ids);
    EXPECT_EQ(node->weights, masked->weights);
  }

  static std::unique_ptr<fixtures::TempDir> dir_;
};
std::unique_ptr<fixtures::TempDir> NodeRouting::dir_;

TEST_P(NodeRouting, ACutRouterChoosesAndWeighsExpertsLikeTheMaskedOne) {
  const auto source = MoeModel::Open(kSource);
  const auto manifest = ReadManifest(Path("dist"));
  ASSERT_TRUE(source && manifest);
  Routing spec;
  spec.top_k = 2;
  spec.gating = FindGating(GetParam()).value();
  fixtures::Numbers numbers(42);
  for (uint32_t group = 0; group < 3; ++group) {
    const split::fs::path directory = Path(Cat("node", group));
    const auto node = MoeModel::Open(directory);
    ASSERT_TRUE(node) << node.error().message;
    for (const MoeLayer& layer : source->layers()) {
      const Rows whole = ReadRouter(*source, layer.layer);
      const Rows cut = ReadRouter(*node, layer.layer);
      const ExpertIds eligible = NodeExperts(directory, layer.layer);
      ASSERT_EQ(eligible, Eligible(manifest->plan, group, layer.layer));
      ASSERT_EQ(cut.size(), eligible.size());
      for (uint32_t token = 0; token < kTokens; ++token) {
        const std::vector<float> hidden = HiddenVector(numbers, whole[0].size());
        spec.normalize = token % 2 == 0;
        ASSERT_NO_FATAL_FAILURE(
            ExpectSameChoice(Logits(whole, hidden), Logits(cut, hidden), eligible, spec));
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Gatings, NodeRouting,
                         testing::Values("softmax", "sigmoid", "softmax-after-topk",
                                         "sigmoid-after-topk", "sqrtsoftplus"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           for (char& c : name) c = c == '-' ? '_' : c;
                           return name;
                         });

}  // namespace
}  // namespace moepack::manifest
