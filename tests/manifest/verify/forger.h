// Forges a distribution: changes its statements or contents, and corrects every digest in it, as
// somebody would who wants the change to go unnoticed.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fixtures/temp_dir.h"
#include "libshard/base/digest.h"
#include "libshard/format/gguf.h"
#include "manifest/document/manifest.h"
#include "tests/manifest/document/sample.h"

namespace forger {

using nlohmann::ordered_json;
namespace fs = std::filesystem;

struct Forgery {
  ordered_json manifest;
  std::map<std::string, std::string> files;  // all but distribution.json

  static Forgery Of(const fs::path& directory) {
    Forgery out;
    out.manifest = ordered_json::parse(fixtures::ReadFile(directory / "distribution.json"));
    for (const auto& entry : fs::recursive_directory_iterator(directory)) {
      const std::string name = fs::relative(entry.path(), directory).string();
      if (!entry.is_regular_file() || name == "distribution.json") continue;
      out.files[name] = fixtures::ReadFile(entry.path());
    }
    return out;
  }

  ordered_json& Bundle(const std::string& file) {
    for (ordered_json& bundle : manifest["bundles"]) {
      if (bundle["file"] == file) return bundle;
    }
    throw std::out_of_range(file);
  }

  // Sizes, SHA-256 and XXH3 of everything that is listed, and the versions that are also digests.
  void MakeDigestsRight() {
    for (ordered_json& bundle : manifest["bundles"]) {
      if (!bundle.contains("file") || !bundle.contains("tensors")) continue;
      const std::string& bytes = Stat(bundle);
      for (ordered_json& tensor : bundle["tensors"]) {
        if (!tensor.contains("offset") || !tensor.contains("bytes")) continue;
        const uint64_t offset = tensor["offset"], size = tensor["bytes"];
        if (offset > bytes.size() || size > bytes.size() - offset) continue;
        tensor["xxh3"] = moepack::Xxh3Hex(std::as_bytes(std::span(bytes)).subspan(offset, size));
      }
    }
    for (ordered_json& asset : manifest["assets"]) Stat(asset);
    const auto read = moepack::manifest::ParseManifest("forged", manifest.dump());
    if (!read) return;  // a statement that no reader uses
    const moepack::manifest::Versions versions =
        moepack::manifest::ComputeVersions(read->versions.model, read->plan);
    manifest["versions"]["shard"] = versions.shard;
    manifest["versions"]["replica"] = versions.replica;
  }

  void WriteTo(const fs::path& directory) {
    MakeDigestsRight();
    for (const auto& [name, bytes] : files) {
      fs::create_directories((directory / name).parent_path());
      fixtures::WriteFile(directory / name, bytes);
    }
    fixtures::WriteFile(directory / "distribution.json", manifest.dump(2) + "\n");
  }

 private:
  const std::string& Stat(ordered_json& record) {
    const std::string& bytes = files[record["file"]];
    record["size"] = bytes.size();
    record["sha256"] = moepack::Sha256Hex(bytes);
    return bytes;
  }
};

// Rewrites the header of a GGUF file with other metadata, and keeps its tensors.
inline void ChangeMetadata(Forgery& forged, const std::string& file,
                           const std::function<void(moepack::GgufMetadata&)>& change) {
  std::string& bytes = forged.files.at(file);
  auto header = moepack::ParseGguf(file, std::as_bytes(std::span(bytes)), bytes.size());
  if (!header) throw std::runtime_error(header.error().message);
  change(header->metadata);
  const std::string prefix =
      moepack::BuildGgufHeader(header->metadata, header->tensors, header->alignment);
  bytes = prefix + bytes.substr(std::min<size_t>(header->data_start, bytes.size()));
  for (ordered_json& tensor : forged.Bundle(file)["tensors"]) {
    tensor["offset"] = tensor["offset"].get<uint64_t>() + prefix.size() - header->data_start;
  }
}

// The same for safetensors: the header's JSON, with its own spelling.
inline void ChangeHeader(Forgery& forged, const std::string& file,
                         const std::function<void(std::string&)>& change) {
  std::string& bytes = forged.files.at(file);
  const auto length = moepack::LoadLe<uint64_t>(std::as_bytes(std::span(bytes)));
  std::string text = bytes.substr(8, length);
  change(text);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  bytes = fixtures::WithHeader(text, bytes.substr(8 + length));
  for (ordered_json& tensor : forged.Bundle(file)["tensors"]) {
    tensor["offset"] = tensor["offset"].get<uint64_t>() + text.size() - length;
  }
}

}  // namespace forger
