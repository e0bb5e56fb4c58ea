// The chunk map of a bundle: "cells" in distribution.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "libshard/base/files/cell_digest.h"
#include "manifest/document/read_back.h"
#include "tests/manifest/document/sample.h"

namespace moepack::manifest {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

constexpr const char* kFile = "groups/001/experts.safetensors";

// The sample with a well-formed map.
sample::Distribution WithMap(uint64_t cell_bytes) {
  sample::Distribution made = sample::Make();
  BundleRecord& bundle = made.Bundle(kFile);
  CellSha256 hash(cell_bytes);
  hash.Update(std::as_bytes(std::span(made.files[kFile])));
  EXPECT_EQ(hash.Finish(), bundle.sha256);
  bundle.cells = hash.TakeCells();
  return made;
}

TEST(ChunkMap, IsReadBackAsItWasWritten) {
  const sample::Distribution made = WithMap(100);
  const std::string text = WriteManifest(made.manifest);
  EXPECT_THAT(text, HasSubstr("\"cells\": {\n        \"bytes\": 100,\n        \"sha256\": [\""));
  auto read = ParseManifest("x", text);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(WriteManifest(*read), text);
  const auto has_map = [](const BundleRecord& bundle) { return !bundle.cells.sha256.empty(); };
  EXPECT_EQ(std::count_if(read->bundles.begin(), read->bundles.end(), has_map), 1);
  for (BundleRecord& bundle : read->bundles) {
    if (has_map(bundle)) {
      EXPECT_EQ(bundle.cells.sha256.size(), (bundle.size + 99) / 100);
      bundle.cells = {};
    }
  }
  EXPECT_EQ(WriteManifest(*read), WriteManifest(sample::Make().manifest));
  EXPECT_TRUE(ReadBackManifest(made.manifest));
}

TEST(ChunkMap, MustCoverTheFile) {
  const std::string text = WriteManifest(WithMap(100).manifest);
  const auto message = [&](const std::function<void(ordered_json&)>& bend) {
    ordered_json document = ordered_json::parse(text);
    for (ordered_json& bundle : document["bundles"])
      if (bundle.contains("cells")) bend(bundle["cells"]);
    const auto read = ParseManifest("x", document.dump());
    if (read) return std::string("no error");
    EXPECT_EQ(read.error().code, Code::kCorrupt);
    return read.error().message;
  };
  EXPECT_EQ(message([](auto&) {}), "no error");
  EXPECT_THAT(message([](auto& cells) { cells["sha256"].erase(0); }),
              HasSubstr("experts.safetensors\": cells: sha256: expected "));
  EXPECT_THAT(message([](auto& cells) { cells["bytes"] = 50; }), HasSubstr(" digests for "));
  EXPECT_THAT(message([](auto& cells) { cells["bytes"] = 0; }),
              HasSubstr("cells: bytes: expected a number of bytes above 0, found 0"));
  EXPECT_THAT(message([](auto& cells) { cells["sha256"][1] = std::string(64, 'A'); }),
              HasSubstr("cells: sha256: expected digests of 64 lower-case hexadecimal digits"));
  EXPECT_THAT(message([](auto& cells) { cells["sha256"][0] = 5; }), HasSubstr("cells: sha256: "));
  EXPECT_THAT(message([](auto& cells) { cells.erase("sha256"); }), HasSubstr("cells: sha256: "));
  EXPECT_THAT(message([](auto& cells) { cells = 7; }), HasSubstr("cells: expected an object"));
}

}  // namespace
}  // namespace moepack::manifest
