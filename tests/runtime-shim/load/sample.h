// Shared by the tests of loading: a checkpoint in every form in which it can be loaded, and the
// loaded slices by tensor and expert.
#pragma once
// Long because only *_test.cc files are compiled here, so what several of them need is a header.

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/convert/gguf_model.h"
#include "libshard/graph/model_spec.h"
#include "libshard/pack/pack.h"
#include "libshard/pack/slice_gguf.h"
#include "libshard/recipe/quantize.h"
#include "runtime-shim/model/weights.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::runtime {

namespace fs = std::filesystem;

using WeightsPtr = std::shared_ptr<const Weights>;

// Type and bytes of a tensor of the trunk (expert -1), or of one expert of a packed tensor.
struct Slice {
  std::string type, bytes;
  bool operator==(const Slice&) const = default;
};
using Slices = std::map<std::pair<std::string, int>, Slice>;

// Whether checkpoints of the family convert to an architecture that runs.
inline bool Runs(const std::string& family) {
  const GgufConverter* converter = FindConverter(family);
  return converter != nullptr && FindRuntimeFamily(converter->architecture) != nullptr;
}

inline std::string Text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline Slices TrunkOf(const Weights& weights) {
  Slices slices;
  for (const HostTensor& tensor : weights.trunk)
    slices[{tensor.name, -1}] = {std::string(tensor.format->name), Text(tensor.bytes.whole())};
  return slices;
}

inline Slices ExpertsOf(const ExpertSet& set) {
  Slices slices;
  for (const HostTensor& tensor : set.tensors) {
    const auto layer = static_cast<uint32_t>(std::stoi(tensor.name.substr(4)));
    const ExpertIds& ids = moepack::IdsOf(set.experts_by_layer, layer);
    EXPECT_EQ(tensor.shape[0], ids.size()) << tensor.name;
    const size_t size = tensor.bytes.size() / ids.size();
    for (size_t i = 0; i < ids.size(); ++i) {
      slices[{tensor.name, static_cast<int>(ids[i])}] = {std::string(tensor.format->name),
                                                         Text(tensor.bytes.Part(i * size, size))};
    }
  }
  return slices;
}

// The slices of `all` that the set should have.
inline Slices Held(const Slices& all, const LayerExperts& experts) {
  Slices held;
  for (const auto& [key, slice] : all) {
    const auto layer = static_cast<uint32_t>(std::stoi(key.first.substr(4)));
    if (Contains(moepack::IdsOf(experts, layer), static_cast<uint32_t>(key.second)))
      held[key] = slice;
  }
  return held;
}

// Prints readable differences instead of megabytes of bytes.
inline void ExpectSame(const Slices& expected, const Slices& found) {
  EXPECT_EQ(expected.size(), found.size());
  for (const auto& [key, slice] : expected) {
    const auto same = found.find(key);
    ASSERT_NE(same, found.end()) << key.first << " " << key.second;
    EXPECT_EQ(slice.type, same->second.type) << key.first;
    EXPECT_TRUE(slice.bytes == same->second.bytes) << key.first << " " << key.second;
  }
}

inline WeightsPtr Load(const fs::path& source, const LoadOptions& options = {}) {
  auto weights = LoadWeights(source.string(), options);
  EXPECT_TRUE(weights) << weights.error().message;
  return weights ? *weights : std::make_shared<const Weights>();
}

inline Error Refusal(const fs::path& source, const LoadOptions& options = {}) {
  auto weights = LoadWeights(source.string(), options);
  EXPECT_FALSE(weights);
  return weights ? Error{Code::kIo, "loaded"} : weights.error();
}

inline LoadOptions Groups(const std::vector<uint32_t>& groups, bool overlay = true) {
  LoadOptions options;
  options.groups = groups;
  options.overlay = overlay;
  return options;
}
inline LoadOptions Unverified() {
  LoadOptions options;
  options.verify = false;
  return options;
}

inline QuantizeOptions Recipe(const std::string& name) {
  QuantizeOptions options;
  options.recipe.recipe = name;
  return options;
}

// `<out>/m.gguf`, or a split set.
inline void WriteGguf(const fs::path& source, const fs::path& out, const std::string& recipe,
                      uint64_t max_part_size = 0) {
  const MoeModel model = tiny::Model(source);
  const auto typed = PrepareGguf(model, Recipe(recipe));
  ASSERT_TRUE(typed) << typed.error().message;
  auto files = WholeGguf(typed->model, {.stem = "m", .max_part_size = max_part_size});
  ASSERT_TRUE(files) << files.error().message;
  const auto& sources = model.checkpoint().files();
  auto staging = StagingDirectory::Start(out, PackIdentity(sources, *files));
  ASSERT_TRUE(staging) << staging.error().message;
  ASSERT_TRUE(Pack(sources, *files, *staging, {}));
  ASSERT_TRUE(staging->Publish(false));
}

// How a distribution is made; recipe "": safetensors.
struct SplitOptions {
  std::string recipe = {};
  std::string overlay = R"({"version": "one", "layers": {"*": "1"}})";
  uint32_t groups = 2;
  std::vector<std::string> parts = {};
  std::string revision = {};
  uint64_t max_part_size = 0;
  bool uniform = true;
};

inline void WriteSplit(const fs::path& source, const fs::path& out,
                       const SplitOptions& split = {}) {
  const MoeModel model = tiny::Model(source);
  PlanOptions plan;
  plan.groups = split.groups;
  plan.uniform = split.uniform;
  if (!split.overlay.empty()) {
    plan.overlay_file = out.string() + "-overlay.json";
    fixtures::WriteFile(plan.overlay_file, split.overlay);
  }
  manifest::WriteOptions options;
  options.slice.parts = *ParseParts(split.parts, split.groups);
  options.slice.max_part_size = split.max_part_size;
  options.revision = split.revision;
  if (!split.recipe.empty()) options.gguf = Recipe(split.recipe);
  const auto report =
      manifest::WriteDistribution(model, tiny::Plan(model, plan), out.string(), options);
  ASSERT_TRUE(report) << report.error().message;
}

}  // namespace moepack::runtime
