// A generated checkpoint of a layout whose tensors and config can be changed before it is written,
// for tests of the findings of a check. Tensor data stays zero.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/json.h"
#include "libshard/check/model_check.h"

namespace moepack {

class BentCheckpoint {
 public:
  explicit BentCheckpoint(const std::string& layout, const fixtures::Options& options = {})
      : spec_(fixtures::DescribeCheckpoint(layout, options)), config(Json::parse(spec_.config)) {}

  // Removes the tensors whose names contain `part`; there must be some.
  void Remove(const std::string& part) {
    EXPECT_GT(std::erase_if(spec_.tensors,
                            [&](const auto& t) { return t.name.find(part) != std::string::npos; }),
              0u)
        << part;
  }
  void Add(const std::string& name, const std::vector<uint64_t>& shape) {
    spec_.tensors.push_back({name, "BF16", shape, Bytes("BF16", shape)});
  }
  void Reshape(const std::string& name, const std::vector<uint64_t>& shape) {
    const auto at = std::find_if(spec_.tensors.begin(), spec_.tensors.end(),
                                 [&](const auto& tensor) { return tensor.name == name; });
    ASSERT_NE(at, spec_.tensors.end()) << name;
    at->shape = shape;
    at->bytes = Bytes(at->dtype, shape);
  }

  const std::filesystem::path& Write() const {
    uint64_t size = 0;
    for (const fixtures::TensorHead& tensor : spec_.tensors) size += tensor.bytes;
    const std::string header = fixtures::SafetensorsHeader(spec_.tensors, {});
    const auto path = dir_ / "model.safetensors";
    EXPECT_TRUE(fixtures::WriteFile(path, header));
    std::filesystem::resize_file(path, header.size() + size);
    EXPECT_TRUE(fixtures::WriteFile(dir_ / "config.json", config.dump()));
    return dir_.path();
  }

  Result<std::vector<CheckFinding>> Check(const CheckOptions& options = {}) const {
    SHARD_TRY(const MoeModel model, MoeModel::Open(Write()));
    return CheckModel(model, options);
  }
  // The findings of the check, one text each; the error if it cannot run.
  std::vector<std::string> Findings(const CheckOptions& options = {}) const {
    const auto findings = Check(options);
    if (!findings) return {findings.error().message};
    std::vector<std::string> texts;
    for (const CheckFinding& finding : *findings) texts.push_back(FindingText(finding));
    return texts;
  }

 private:
  static uint64_t Bytes(const std::string& dtype, const std::vector<uint64_t>& shape) {
    uint64_t bytes = fixtures::DtypeBytes(dtype);
    for (const uint64_t dimension : shape) bytes *= dimension;
    return bytes;
  }

  fixtures::CheckpointSpec spec_;
  fixtures::TempDir dir_;

 public:
  Json config;
};

}  // namespace moepack
