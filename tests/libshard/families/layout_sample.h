// A generated checkpoint (fixtures/layouts) whose config can be changed before it is converted.
#pragma once

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/generator.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/text/json.h"
#include "libshard/convert/gguf_model.h"

namespace moepack {

class LayoutSample {
 public:
  explicit LayoutSample(const char* layout) {
    EXPECT_TRUE(fixtures::MakeCheckpoint(layout, dir_.path()));
    config = ReadJsonFile((dir_ / "config.json").string()).value();
  }

  Result<GgufModel> Convert(const ConvertOptions& options = {}) {
    fixtures::WriteFile(dir_ / "config.json", config.dump());
    auto model = MoeModel::Open(dir_.path());
    if (!model) return model.error();
    model_.emplace(*std::move(model));
    return ToGguf(*model_, options);
  }
  GgufModel Converted(const ConvertOptions& options = {}) {
    auto gguf = Convert(options);
    EXPECT_TRUE(gguf) << gguf.error().message;
    return gguf ? *std::move(gguf) : GgufModel();
  }
  // "" if it converts.
  std::string Refusal() {
    const auto gguf = Convert();
    return gguf ? "" : gguf.error().message;
  }

  Json config;

 private:
  fixtures::TempDir dir_;
  std::optional<MoeModel> model_;
};

inline const GgufTensor* FindTensor(const GgufModel& model, std::string_view name) {
  for (const GgufTensor& tensor : model.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

}  // namespace moepack
