// A tiny distribution of three groups and an overlay, published to a layout, and ways to damage it.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/memory_temp.h"
#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "manifest/registry/publish.h"
#include "manifest/registry/pull.h"
#include "manifest/registry/store/oci_layout.h"
#include "tests/manifest/document/tiny_distribution.h"

namespace moepack::registry {

class LayoutSample : public testing::Test {
 protected:
  using Json = nlohmann::ordered_json;

  void Write(const std::string& name, const std::vector<std::string>& parts = {}) {
    const auto report = tiny::Write(dir_ / name, tiny::Only(parts));
    ASSERT_TRUE(report) << report.error().message;
  }
  std::string Path(const std::string& name) const { return (dir_ / name).string(); }
  Reference Ref(const std::string& tag = "v1", const std::string& layout = "layout") const {
    return {Reference::Kind::kLayout, Path(layout), tag, ""};
  }
  Result<StoreReport> PublishTo(const Reference& to, const PutOptions& options = {},
                                const std::string& name = "dist") {
    return Publish(Path(name), to, options);
  }
  // Writes "dist" and publishes it as layout:v1.
  void PublishOne() {
    Write("dist");
    const auto report = PublishTo(Ref());
    ASSERT_TRUE(report) << report.error().message;
    digest_ = report->digest();
  }
  Result<PullReport> PullGroups(std::vector<uint32_t> groups, const Reference& from,
                                const std::string& out = "out", PullOptions options = {}) {
    options.groups = std::move(groups);
    return Pull(from, Path(out), options);
  }

  std::filesystem::path BlobPath(const std::string& digest) const {
    return dir_ / ("layout/blobs/sha256/" + digest.substr(digest.find(':') + 1));
  }
  Json Read(const std::string& file) const { return Json::parse(fixtures::ReadFile(dir_ / file)); }
  // The manifest of layout:v1.
  Json Manifest() const { return Json::parse(fixtures::ReadFile(BlobPath(digest_))); }
  std::string DigestOfLayer(const std::string& path) const {
    const Json manifest = Manifest();
    for (const Json& layer : manifest["layers"]) {
      if (layer["annotations"]["org.cncf.model.filepath"] == path) return layer["digest"];
    }
    return "";
  }
  // Adds a blob and returns {digest, size} for a descriptor.
  Json AddBlob(const std::string& bytes) const {
    const std::string digest = "sha256:" + Sha256Hex(bytes);
    fixtures::WriteFile(BlobPath(digest), bytes);
    return {{"digest", digest}, {"size", bytes.size()}};
  }
  // Makes v1 point to these bytes.
  void SetManifest(const std::string& bytes) {
    const Json blob = AddBlob(bytes);
    Json index = Read("layout/index.json");
    index["manifests"][0].update(blob);
    fixtures::WriteFile(dir_ / "layout/index.json", index.dump());
    digest_ = blob["digest"];
  }
  // Changes the manifest of v1 and its config.
  void Change(const std::function<void(Json&)>& change) {
    Json manifest = Manifest();
    change(manifest);
    const std::string old = manifest["config"]["digest"];
    Json config = Json::parse(fixtures::ReadFile(BlobPath(old)));
    Json& digests = config["modelfs"]["diffIds"] = Json::array();
    for (const Json& layer : manifest["layers"]) digests.push_back(layer["digest"]);
    manifest["config"].update(AddBlob(config.dump()));
    SetManifest(manifest.dump());
  }
  // Gives the published distribution.json other bytes.
  void ChangeDistribution(const std::string& from, const std::string& to) {
    std::string text = fixtures::ReadFile(dir_ / "dist/distribution.json");
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    Change([&](Json& manifest) {
      manifest["layers"][0].update(AddBlob(text));
      manifest["annotations"]["org.moepack.distribution.digest"] = manifest["layers"][0]["digest"];
    });
  }

  const fixtures::MemoryTemp in_memory_;
  fixtures::TempDir dir_;
  std::string digest_;  // of the manifest of layout:v1
};

}  // namespace moepack::registry
