// A generated checkpoint, its distribution and the node assembled from it.
#pragma once

#include <gtest/gtest.h>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "manifest/node/assemble.h"
#include "tests/manifest/document/tiny_distribution.h"
#include "tests/manifest/find_bundle.h"

namespace moepack::manifest {

namespace fs = std::filesystem;

inline constexpr const char* kTrunkBundle = "trunk/trunk.safetensors";
inline constexpr const char* kGroup0 = "groups/000/experts.safetensors";
inline constexpr const char* kOverlayBundle = "overlays/one/experts.safetensors";

inline AssembleOptions Group(uint32_t group) {
  AssembleOptions options;
  options.group = group;
  return options;
}
inline AssembleOptions Forced(uint32_t group = 0) {
  AssembleOptions options = Group(group);
  options.force = true;
  return options;
}
inline AssembleOptions DryRun() {
  AssembleOptions options;
  options.dry_run = true;
  return options;
}

// The tensors of a safetensors file, without its header.
inline std::string DataOf(const std::string& file) {
  return file.substr(8 + LoadLe<uint64_t>(std::as_bytes(std::span(file))));
}

// Small generated checkpoints, split in two, with one expert of every layer replicated.
class AssembleNodeTest : public testing::Test {
 protected:
  void Split(const std::string& layout, const std::vector<std::string>& parts = {},
             bool uniform = true) {
    ASSERT_TRUE(fixtures::MakeCheckpoint(layout, dir_ / "source"));
    SplitSource(parts, uniform);
  }
  // The same with the checkpoint that is there.
  void SplitSource(const std::vector<std::string>& parts = {}, bool uniform = true) {
    fixtures::WriteFile(dir_ / "overlay.json", R"({"version": "one", "layers": {"*": "1"}})");
    const MoeModel model = tiny::Model(dir_ / "source");
    PlanOptions options;
    options.groups = 2;
    options.overlay_file = (dir_ / "overlay.json").string();
    options.uniform = uniform;
    const auto report = WriteDistribution(model, tiny::Plan(model, options),
                                          (dir_ / "dist").string(), tiny::Only(parts));
    ASSERT_TRUE(report) << report.error().message;
  }
  Result<AssembleReport> Assemble(const AssembleOptions& options = {}) {
    return AssembleNode((dir_ / "dist").string(), (dir_ / "node").string(), options);
  }
  Error Refusal(const AssembleOptions& options = {}) {
    const auto before = tiny::Tree(dir_.path());
    const auto report = Assemble(options);
    EXPECT_FALSE(report);
    EXPECT_EQ(tiny::Tree(dir_.path()), before);
    return report ? Error{Code::kIo, ""} : report.error();
  }
  // Changes the manifest with `edit`; files stay unchanged.
  template <class Edit>
  void EditManifest(const Edit& edit) {
    Manifest manifest = *ReadManifest((dir_ / "dist").string());
    edit(manifest);
    fixtures::WriteFile(dir_ / "dist/distribution.json", WriteManifest(manifest));
  }
  // Flips one bit of the file at `offset`.
  void Damage(const std::string& file, uint64_t offset) {
    std::string bytes = fixtures::ReadFile(dir_ / "dist" / file);
    ASSERT_LT(offset, bytes.size());
    bytes[offset] = static_cast<char>(bytes[offset] ^ 1);
    fixtures::WriteFile(dir_ / "dist" / file, bytes);
  }
  TensorRecord Tensor(const std::string& file, const std::string& part_of_name) {
    const Manifest manifest = *ReadManifest((dir_ / "dist").string());
    for (const TensorRecord& tensor : FindBundle(manifest, file)->tensors) {
      if (tensor.name.find(part_of_name) != std::string::npos) return tensor;
    }
    ADD_FAILURE() << "no tensor " << part_of_name << " in " << file;
    return {};
  }

  fixtures::TempDir dir_;
};

}  // namespace moepack::manifest
