// Whatever a writer accepts, its reader accepts: random plans, models, names and metadata through
// every writer and back; whatever is refused is refused before a byte is written.
#include "manifest/document/read_back.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"
#include "libshard/base/files/file.h"
#include "libshard/base/files/inside_path.h"
#include "libshard/base/limits.h"
#include "libshard/base/text/utf8.h"
#include "libshard/format/gguf.h"
#include "libshard/format/safetensors.h"
#include "libshard/pack/check_outputs.h"
#include "libshard/plan/plan.h"
#include "libshard/stats/statistics_file.h"
#include "manifest/document/manifest.h"
#include "manifest/document/node_record.h"
#include "tests/fuzz/mutation.h"
#include "tests/libshard/model/model_for_test.h"
#include "tests/libshard/stats/sample.h"
#include "tests/manifest/document/sample.h"

namespace {

using fuzz::Random;
using moepack::Code;
using testing::AnyOf;
using testing::HasSubstr;

constexpr int kRounds = 100;

// Text as a user or a checkpoint may give it; sometimes invalid UTF-8, sometimes empty.
std::string AnyText(Random& random, size_t most = 40) {
  static const std::vector<std::string> pieces = {
      "a",    "Z", "7",        "/",          "\\", "\"", "\n", "\t", std::string(1, '\0'),
      "\x7f", "é", "\u202e",   "\u2028",     "😀",  " ",  ".",  "..", "%",
      "{",    "]", "\xc2\x9b", "model-00001"};
  std::string text;
  for (size_t n = random.Below(most); n > 0; --n) text += pieces[random.Below(pieces.size())];
  if (random.Below(20) == 0) text += "\xff";
  return text;
}

moepack::LayerExperts RandomOwned(Random& random, const moepack::LayerCounts& layers, size_t groups,
                                  std::vector<moepack::GroupPlan>& out) {
  moepack::LayerExperts remainder;
  for (const auto& [layer, experts] : layers) {
    for (uint32_t id = 0; id < experts; ++id) {
      // The first ids are assigned round-robin, so that every group has one.
      const size_t group = id < groups ? id : random.Below(groups + 1);
      (group == groups ? remainder : out[group].owned)[layer].push_back(id);
    }
  }
  return remainder;
}

moepack::Plan RandomPlan(Random& random) {
  moepack::Plan plan;
  plan.scheme = random.Below(2) == 0 ? "explicit" : "by-hand_1.0";
  const size_t groups = 1 + random.Below(5);
  for (size_t n = 1 + random.Below(6); n > 0; --n) {
    const auto layer = static_cast<uint32_t>(random.Below(moepack::kMaxLayers));
    plan.layers[layer] = static_cast<uint32_t>(groups + random.Below(20));
    plan.top_k[layer] = 1;
  }
  plan.groups.resize(groups);
  plan.remainder = RandomOwned(random, plan.layers, groups, plan.groups);
  if (random.Below(2) == 0) {
    moepack::OverlayPlan& overlay = plan.overlays.emplace_back();
    overlay.version = "v-" + std::to_string(random.Below(100));
    overlay.parent = random.Below(2) == 0 ? "" : "before";
    overlay.experts_by_layer[plan.layers.begin()->first] = {0};
  }
  return plan;
}

std::string TextOf(const moepack::Plan& plan) {
  moepack::Json document = moepack::Json::object();
  document["partition"] = moepack::PartitionToJson(plan);
  document["overlays"] = moepack::OverlaysToJson(plan);
  return moepack::WriteJson(document);
}

TEST(WhatAWriterAcceptsItsReaderAccepts, Plans) {
  Random random(12);
  for (int round = 0; round < kRounds; ++round) {
    const moepack::Plan plan = RandomPlan(random);
    const std::string text = TextOf(plan);
    const auto document = moepack::ParseJson("plan", text);
    ASSERT_TRUE(document) << document.error().message;
    const auto read = moepack::PlanFromJson("plan", *document, plan.layers, plan.top_k);
    ASSERT_TRUE(read) << read.error().message << "\n" << text;
    EXPECT_EQ(TextOf(*read), text);
  }
}

// Whatever MakePlan decides, for models of any shape, ReadPlanFile reads back.
TEST(WhatAWriterAcceptsItsReaderAccepts, PlanFiles) {
  Random random(18);
  const fixtures::TempDir dir;
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    moepack::ModelForTest made;
    made.Root("/data/" + AnyText(random, 6));
    for (uint32_t layer = 0; layer < 1 + random.Below(5); ++layer) {
      made.Layer({layer, static_cast<uint32_t>(1 + random.Below(20)), 1, 10, false});
    }
    const moepack::MoeModel model = made.Build();
    moepack::PlanOptions options;
    options.groups = static_cast<uint32_t>(1 + random.Below(6));
    options.partition = random.Below(2) == 0 ? "contiguous" : "modulo";
    options.uniform = random.Below(2) == 0;
    const auto plan = moepack::MakePlan(model, options);
    if (!plan) continue;
    ++accepted;
    const auto text = moepack::PlanText(model, *plan);
    ASSERT_TRUE(text) << text.error().message;
    ASSERT_TRUE(moepack::WriteTextFile(dir / "plan.json", *text));
    const auto read = moepack::ReadPlanFile(dir / "plan.json", model);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(TextOf(*read), TextOf(*plan));
  }
  EXPECT_GT(accepted, 5);
}

TEST(WhatAWriterAcceptsItsReaderAccepts, APlanThatTheReaderRefusesIsNotWritten) {
  const moepack::MoeModel model = moepack::ModelForTest().Layers(2, 8, 2).Build();
  moepack::PlanOptions options;
  options.groups = 2;
  moepack::Plan plan = moepack::MakePlan(model, options).value();
  ASSERT_TRUE(moepack::PlanText(model, plan));
  plan.scheme = "no/label";
  const auto refused = moepack::PlanText(model, plan);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kUnsupported);
  EXPECT_THAT(refused.error().message,
              HasSubstr("found one that our own reader refuses: plan.json: partition: scheme"));
  plan.scheme = "modulo";  // which it does not follow
  const auto other = moepack::PlanText(model, plan);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("it would read another plan"));
}

moepack::manifest::NodeRecord RandomNode(Random& random) {
  moepack::manifest::NodeRecord record;
  record.versions = {std::string(16, 'a'), std::string(16, 'b'), ""};
  record.group = static_cast<uint32_t>(random.Below(2 * moepack::kMaxExpertsPerLayer));
  for (size_t n = random.Below(4); n > 0; --n) {
    record.experts_by_layer[std::to_string(random.Below(2 * moepack::kMaxLayers))] = "0-3,7";
  }
  record.distribution_sha256 = std::string(64, 'c');
  record.tool_version = random.Below(4) == 0 ? AnyText(random) : "1.0.0";
  record.recipe.name = random.Below(4) == 0 ? AnyText(random) : "Q4_K_M";
  for (size_t n = random.Below(4); n > 0; --n) {
    const std::string name = random.Below(4) == 0 ? AnyText(random, 6) : "a" + std::to_string(n);
    record.files.push_back({name, random.Below(1 << 30), std::string(64, 'd')});
  }
  return record;
}

TEST(WhatAWriterAcceptsItsReaderAccepts, NodeFiles) {
  Random random(19);
  int accepted = 0, refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const moepack::manifest::NodeRecord record = RandomNode(random);
    const auto text = moepack::manifest::ReadableNodeText(record);
    if (!text) {
      ++refused;
      EXPECT_EQ(text.error().code, Code::kUnsupported);
      EXPECT_THAT(text.error().message, HasSubstr("moepack_node.json: expected one that can be"));
      continue;
    }
    ++accepted;
    const auto read = moepack::manifest::ParseNodeRecord("node", *text);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->recipe.name, record.recipe.name);
    EXPECT_EQ(read->tool_version, record.tool_version);
    EXPECT_EQ(read->files.size(), record.files.size());
  }
  EXPECT_GT(accepted, 5);
  EXPECT_GT(refused, 5);
}

const moepack::manifest::Manifest& Sample() {
  static const moepack::manifest::Manifest manifest = sample::Make().manifest;
  return manifest;
}

moepack::manifest::Manifest RandomManifest(Random& random) {
  moepack::manifest::Manifest manifest = Sample();
  manifest.model.id = AnyText(random);
  manifest.model.revision = AnyText(random);
  manifest.model.architecture = AnyText(random);
  manifest.model.source = {{random.Below(4) == 0 ? AnyText(random) : "a.safetensors",
                            random.Below(1 << 30), std::string(64, 'a'), ""}};
  manifest.model.layers = static_cast<uint32_t>(random.Below(2 * moepack::kMaxLayers));
  if (random.Below(4) == 0) manifest.created = ~uint64_t{0} >> random.Below(3);
  manifest.recipe.name = AnyText(random);
  manifest.command = {AnyText(random), AnyText(random)};
  manifest.bundles[0].tensors[0].name = AnyText(random);
  const auto layer = static_cast<uint32_t>(random.Below(2 * moepack::kMaxLayers));
  manifest.bundles[0].tensors[0].layer.reset();
  if (layer > 0) manifest.bundles[0].tensors[0].layer = layer - 1;
  return manifest;
}

// The check before writing and the reader agree on every manifest.
TEST(WhatAWriterAcceptsItsReaderAccepts, Manifests) {
  Random random(13);
  int accepted = 0, refused = 0;
  for (int round = 0; round < kRounds; ++round) {
    const moepack::manifest::Manifest manifest = RandomManifest(random);
    const moepack::Status checked = moepack::manifest::ReadBackManifest(manifest);
    const std::string text = moepack::manifest::WriteManifest(manifest);
    const auto read = moepack::manifest::ParseManifest("distribution.json", text);
    if (!checked) {
      ++refused;
      EXPECT_EQ(checked.error().code, Code::kUnsupported);
      continue;
    }
    ++accepted;
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(moepack::manifest::WriteManifest(*read), text);
    EXPECT_EQ(read->model.id, manifest.model.id);
    EXPECT_EQ(read->model.revision, manifest.model.revision);
    EXPECT_EQ(read->command, manifest.command);
  }
  EXPECT_GT(accepted, 5);
  EXPECT_GT(refused, 5);
}

// Each would be read back as U+FFFD.
TEST(WhatAWriterAcceptsItsReaderAccepts, TextThatIsNotUtf8IsRefusedInEveryFieldOfAManifest) {
  using moepack::manifest::Manifest;
  const std::vector<void (*)(Manifest&)> breaks = {
      [](Manifest& m) { m.model.id = "\xff"; },
      [](Manifest& m) { m.model.revision = "v\xc3"; },
      [](Manifest& m) { m.model.architecture = "\xed\xa0\x80"; },
      [](Manifest& m) { m.model.source[0].file = "\xff.safetensors"; },
      [](Manifest& m) { m.recipe.name = "Q4_K_M \xff"; },
      [](Manifest& m) {
        m.recipe.imatrix_file = "\xff", m.recipe.imatrix_sha256 = std::string(64, '0');
      },
      [](Manifest& m) {
        m.command = {"build", "\xff"};
      },
      [](Manifest& m) { m.bundles[0].tensors[0].name += "\xff"; },
  };
  EXPECT_TRUE(moepack::manifest::ReadBackManifest(Sample()));
  for (size_t i = 0; i < breaks.size(); ++i) {
    Manifest manifest = Sample();
    breaks[i](manifest);
    const moepack::Status checked = moepack::manifest::ReadBackManifest(manifest);
    ASSERT_FALSE(checked) << i;
    EXPECT_EQ(checked.error().code, Code::kUnsupported) << i;
  }
}

TEST(WhatAWriterAcceptsItsReaderAccepts, NamesOfShards) {
  Random random(14);
  for (int round = 0; round < kRounds; ++round) {
    const std::string name = AnyText(random, 5);
    moepack::manifest::Manifest manifest = Sample();
    manifest.model.source[0].file = name;
    if (!moepack::IsSafeRelativePath(name)) continue;
    const auto read =
        moepack::manifest::ParseManifest("m", moepack::manifest::WriteManifest(manifest));
    const bool own_name = name == moepack::manifest::kManifestFile;
    ASSERT_TRUE(read || own_name) << read.error().message;
    if (!read) continue;
    EXPECT_EQ(read->model.source[0].file, name);
  }
}

moepack::OutputFile RandomFile(Random& random, const char* format) {
  moepack::OutputFile file;
  file.path = "trunk";
  for (size_t n = random.Below(6); n > 0; --n) {
    moepack::OutputTensor tensor;
    tensor.entry.name = AnyText(random, 12) + std::to_string(n);
    tensor.entry.format = quant::FindFormat(format);
    tensor.entry.dtype = "F32";
    for (size_t d = random.Below(6); d > 0; --d) tensor.entry.shape.push_back(random.Below(5));
    tensor.entry.bytes = 4 * tensor.entry.Elements();
    file.tensors.push_back(std::move(tensor));
  }
  return file;
}

// A header that ReadBackHeaders accepts parses, and has the tensors and words that went in.
TEST(WhatAWriterAcceptsItsReaderAccepts, SafetensorsHeaders) {
  Random random(15);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    moepack::OutputFile file = RandomFile(random, "f32");
    std::map<std::string, std::string> words;
    for (size_t n = random.Below(4); n > 0; --n) words["k" + std::to_string(n)] = AnyText(random);
    moepack::LayOutSafetensors(file, words);
    if (!moepack::ReadBackHeaders({file})) continue;
    ++accepted;
    const auto bytes = std::as_bytes(std::span(file.prefix));
    const auto read = moepack::ParseSafetensors("f", bytes, file.size);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->tensors.size(), file.tensors.size());
    for (const auto& [key, value] : words) {
      if (!moepack::IsUtf8(value)) continue;
      EXPECT_EQ(read->metadata.at(key), value);
    }
  }
  EXPECT_GT(accepted, 5);
}

TEST(WhatAWriterAcceptsItsReaderAccepts, GgufHeaders) {
  Random random(16);
  int accepted = 0;
  for (int round = 0; round < kRounds; ++round) {
    moepack::OutputFile file = RandomFile(random, "f32");
    moepack::GgufMetadata metadata;
    for (size_t n = random.Below(4); n > 0; --n) {
      metadata.Set("k" + std::to_string(n), moepack::GgufValue::String(AnyText(random)));
    }
    metadata.Set("list", moepack::GgufValue::Strings({AnyText(random), ""}));
    moepack::LayOutGguf(file, metadata);
    if (!moepack::ReadBackHeaders({file})) continue;
    ++accepted;
    const auto read = moepack::ParseGguf("f", std::as_bytes(std::span(file.prefix)), file.size);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(read->tensors.size(), file.tensors.size());
    for (const moepack::GgufEntry& entry : metadata.entries()) {
      ASSERT_NE(read->metadata.Find(entry.key), nullptr);
      EXPECT_EQ(*read->metadata.Find(entry.key), entry.value);
    }
  }
  EXPECT_GT(accepted, 5);
}

TEST(WhatAWriterAcceptsItsReaderAccepts, Statistics) {
  Random random(17);
  const fixtures::TempDir dir;
  int accepted = 0, refused = 0;
  for (int round = 0; round < 40; ++round) {
    moepack::Statistics statistics = moepack::SampleStatistics();
    for (auto& session : statistics.sessions) session.name += AnyText(random, 6);
    const std::string path = dir / (round % 2 == 0 ? "s.json" : "s.json.zst");
    std::filesystem::remove(path);
    if (!moepack::WriteStatistics(path, statistics)) {
      ++refused;
      EXPECT_FALSE(std::filesystem::exists(path));
      continue;
    }
    ++accepted;
    const auto read = moepack::ReadStatistics(path);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(*read == statistics);
  }
  EXPECT_GT(accepted, 5);
  EXPECT_GT(refused, 0);
}

}  // namespace
