// Every layout we know, from checkpoint to distribution to node: the contents of a node are
// compared with the source through separate arithmetic, which shares nothing with libshard's
// slicing.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "fixtures/temp_dir.h"
#include "manifest/node/assemble.h"
#include "tests/conformance/split_checkpoint.h"

namespace moepack::manifest {
namespace {

using testing::HasSubstr;

// Layouts whose nodes cannot be model directories.
struct RefusedLayout {
  const char* layout;
  const char* message;  // part of the error
};
constexpr RefusedLayout kRefusedLayouts[] = {
    {"deepseek-v4", "as many eligible experts in layer 1 as in layer 0"},
    {"grovemoe", "found one that belongs to several experts"},
};

std::vector<std::string> LayoutsWithNodes() {
  std::vector<std::string> layouts = fixtures::Layouts();
  for (const RefusedLayout& refusal : kRefusedLayouts) std::erase(layouts, refusal.layout);
  return layouts;
}

struct Tensor {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::string bytes;
};

std::ostream& operator<<(std::ostream& out, const Tensor& tensor) {
  return out << tensor.dtype << " " << FormatShape(tensor.shape) << ", " << tensor.bytes.size()
             << " bytes";
}
bool operator==(const Tensor& a, const Tensor& b) {
  return a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
}
using Tensors = std::map<std::string, Tensor>;

Tensors ReadTensors(const MoeModel& model) {
  std::vector<std::string> files;
  for (const auto& file : model.checkpoint().files())
    files.push_back(fixtures::ReadFile(file.path));
  Tensors tensors;
  for (const TensorEntry& entry : model.checkpoint().tensors()) {
    tensors[entry.name] = {entry.dtype, entry.shape,
                           files[entry.file].substr(entry.offset, entry.bytes)};
  }
  return tensors;
}

// The entries `ids` of an axis with `experts` equal parts.
Tensor Gather(const Tensor& from, size_t axis, uint32_t experts, const ExpertIds& ids) {
  Tensor out = {from.dtype, from.shape, ""};
  out.shape[axis] = from.shape[axis] / experts * ids.size();
  uint64_t outer = 1;
  for (size_t i = 0; i < axis; ++i) outer *= from.shape[i];
  const uint64_t bytes = from.bytes.size() / outer / experts;
  for (uint64_t o = 0; o < outer; ++o) {
    for (const uint32_t id : ids) {
      out.bytes += from.bytes.substr((o * experts + id) * bytes, bytes);
    }
  }
  return out;
}

std::string Renamed(std::string name, uint32_t from, uint32_t to) {
  const std::string old = Cat(".", from, ".");
  return name.replace(name.rfind(old), old.size(), Cat(".", to, "."));
}

// What the node of `group` must hold.
Tensors Expected(const MoeModel& source, const Tensors& tensors, const Plan& plan, uint32_t group) {
  Tensors out;
  for (const ModelTensor& tensor : source.tensors()) {
    const std::string& name = source.entry(tensor).name;
    const Tensor& whole = tensors.at(name);
    const uint32_t layer = tensor.layer.value_or(0);
    const bool indexed = tensor.layer && tensor.axis && plan.layers.contains(layer);
    const ExpertIds ids = indexed || tensor.expert ? Eligible(plan, group, layer) : ExpertIds();
    if (indexed) {
      out[name] = Gather(whole, *tensor.axis, plan.layers.at(layer), ids);
    } else if (!tensor.expert) {
      out[name] = whole;
    } else if (const auto at = std::find(ids.begin(), ids.end(), *tensor.expert); at != ids.end()) {
      const uint32_t expert = *tensor.expert;
      out[Renamed(name, expert, static_cast<uint32_t>(at - ids.begin()))] = whole;
    }
  }
  return out;
}

class SplitLayout : public testing::Test {
 protected:
  void Make(const std::string& layout) {
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, source_));
    ASSERT_NO_FATAL_FAILURE(split::Split(source_, distribution_));
  }
  const fixtures::TempDir dir_;
  const split::fs::path source_ = dir_ / "source";
  const split::fs::path distribution_ = dir_ / "dist";
};

class EveryLayout : public SplitLayout, public testing::WithParamInterface<std::string> {
 protected:
  void SetUp() override { Make(GetParam()); }
};

TEST_P(EveryLayout, VerifiesItsDistributionAgainstTheSource) {
  const VerifyReport report = split::Verify(distribution_, source_.string());
  EXPECT_TRUE(report.passed()) << split::Errors(report);
  EXPECT_EQ(split::Errors(report), "");
  EXPECT_GT(report.source_bytes, 0u);
}

class EveryNode : public EveryLayout {};

TEST_P(EveryNode, HoldsExactlyItsOwnExpertsFromTheSource) {
  const auto source = MoeModel::Open(source_);
  ASSERT_TRUE(source) << source.error().message;
  const Tensors tensors = ReadTensors(*source);
  const auto manifest = ReadManifest(distribution_.string());
  ASSERT_TRUE(manifest) << manifest.error().message;
  ASSERT_TRUE(manifest->plan.uniform);
  for (uint32_t group = 0; group < 2; ++group) {
    const split::fs::path out = dir_ / Cat("node", group);
    AssembleOptions options;
    options.group = group;
    const auto report = AssembleNode(distribution_.string(), out.string(), options);
    ASSERT_TRUE(report) << report.error().message;
    const auto node = MoeModel::Open(out);
    ASSERT_TRUE(node) << node.error().message;
    EXPECT_EQ(node->family().name, source->family().name);
    ASSERT_EQ(node->layers().size(), source->layers().size());
    for (const MoeLayer& layer : node->layers()) {
      EXPECT_EQ(layer.expert_count, Eligible(manifest->plan, group, layer.layer).size());
      EXPECT_EQ(layer.expert_count, report->expert_count);
      EXPECT_EQ(layer.top_k, source->FindLayer(layer.layer)->top_k);
    }
    EXPECT_EQ(ReadTensors(*node), Expected(*source, tensors, manifest->plan, group));
  }
}

class RefusedNode : public SplitLayout, public testing::WithParamInterface<RefusedLayout> {};

TEST_P(RefusedNode, IsRefusedWithTheReason) {
  ASSERT_NO_FATAL_FAILURE(Make(GetParam().layout));
  for (uint32_t group = 0; group < 2; ++group) {
    AssembleOptions options;
    options.group = group;
    const auto report = AssembleNode(distribution_.string(), (dir_ / "node").string(), options);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::kUnsupported);
    EXPECT_THAT(report.error().message, HasSubstr(GetParam().message));
  }
}

std::string TestName(std::string layout) {
  for (char& c : layout) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return layout;
}

INSTANTIATE_TEST_SUITE_P(Layouts, EveryLayout, testing::ValuesIn(fixtures::Layouts()),
                         [](const auto& tested) { return TestName(tested.param); });
INSTANTIATE_TEST_SUITE_P(Layouts, EveryNode, testing::ValuesIn(LayoutsWithNodes()),
                         [](const auto& tested) { return TestName(tested.param); });
INSTANTIATE_TEST_SUITE_P(Layouts, RefusedNode, testing::ValuesIn(kRefusedLayouts),
                         [](const auto& tested) { return TestName(tested.param.layout); });

}  // namespace
}  // namespace moepack::manifest
