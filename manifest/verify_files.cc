// Rules about the files as such: there, inside, of the right size, with the header the manifest
// describes. No tensor data is read.
#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "libshard/bytes.h"
#include "libshard/file.h"
#include "libshard/safetensors.h"
#include "libshard/text.h"
#include "manifest/verify_rules.h"

namespace manifest {

namespace fs = std::filesystem;
using shard::Cat;
using shard::Quoted;

namespace {

// Does `path`, links resolved, lie below `root` (which is canonical)?
bool StaysInside(const fs::path& root, const fs::path& path) {
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  if (error) return false;
  const auto [end, unused] = std::mismatch(root.begin(), root.end(), target.begin(), target.end());
  return end == root.end();
}

void CheckPresence(const fs::path& root, CheckedFile& file, Findings& findings) {
  std::error_code error;
  const fs::path path = root / file.file;
  const bool regular = fs::is_regular_file(path, error);
  file.readable = regular && StaysInside(root, path);
  if (!regular) {
    const bool there = fs::exists(fs::symlink_status(path, error));
    RuleFindings("files-present", findings)
        .Error(Cat("file: expected one of ", file.size, " bytes, found ",
                   there ? "something else" : "none"),
               file.file);
    return;
  }
  const uint64_t size = fs::file_size(path, error);
  if (!file.readable || (!error && size == file.size)) return;
  file.readable = false;
  RuleFindings("file-size", findings)
      .Error(Cat("size: expected ", file.size, " bytes, found ", size), file.file);
}

// Every name below the directory: links must not lead out, files should be in the manifest.
void CheckDirectory(const fs::path& root, const std::vector<CheckedFile>& files,
                    Findings& findings) {
  std::unordered_set<std::string> listed = {kManifestFile, "README.md"};
  for (const CheckedFile& file : files) listed.insert(file.file);
  std::error_code error;
  fs::recursive_directory_iterator it(root, fs::directory_options::skip_permission_denied, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    const std::string name = it->path().lexically_relative(root).generic_string();
    std::error_code ignored;
    if (it->is_symlink(ignored) && !StaysInside(root, it->path())) {
      RuleFindings("no-links-outside", findings)
          .Error("link: expected a target inside the distribution, found one outside", name);
    } else if (!it->is_directory(ignored) && !listed.contains(name)) {
      RuleFindings("no-stray-files", findings)
          .Warning("file: expected only files of the manifest, found one that is not in it", name);
    }
  }
  if (!error) return;
  RuleFindings("files-present", findings)
      .Error(Cat("directory: cannot be listed: ", error.message()));
}

// The header's bytes, or as many as the file has when its length is a lie: the parser says so.
Result<std::string> ReadHeader(const shard::InputFile& file) {
  std::string bytes(std::min<uint64_t>(8, file.size()), '\0');
  SHARD_CHECK(file.ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  if (bytes.size() < 8) return bytes;
  const auto length = shard::LoadLe<uint64_t>(std::as_bytes(std::span(bytes)));
  if (length > shard::kMaxSafetensorsHeader || length > file.size() - 8) return bytes;
  bytes.resize(8 + length);
  SHARD_CHECK(file.ReadAt(0, std::as_writable_bytes(std::span(bytes))));
  return bytes;
}

std::string TensorText(const std::string& dtype, const std::vector<uint64_t>& shape,
                       uint64_t offset, uint64_t bytes) {
  return Cat(dtype, " ", shard::FormatShape(shape), ", ", bytes, " bytes at ", offset);
}

void CompareTensors(const BundleRecord& bundle, const shard::SafetensorsHeader& header,
                    RuleFindings& findings) {
  std::unordered_map<std::string_view, const shard::TensorEntry*> entries;
  for (const shard::TensorEntry& entry : header.tensors) entries[entry.name] = &entry;
  for (const TensorRecord& tensor : bundle.tensors) {
    const auto found = entries.find(tensor.name);
    if (found == entries.end()) {
      findings.Error("tensor: expected in the file's header, found none", bundle.file, tensor.name);
      continue;
    }
    const shard::TensorEntry& entry = *found->second;
    const bool same = entry.dtype == tensor.dtype && entry.shape == tensor.shape &&
                      entry.offset == tensor.offset && entry.bytes == tensor.bytes;
    if (!same) {
      findings.Error(
          Cat("header: expected ",
              TensorText(tensor.dtype, tensor.shape, tensor.offset, tensor.bytes), ", found ",
              TensorText(entry.dtype, entry.shape, entry.offset, entry.bytes)),
          bundle.file, tensor.name);
    }
    entries.erase(found);
  }
  for (const shard::TensorEntry& entry : header.tensors) {
    if (!entries.contains(entry.name)) continue;
    findings.Error("tensor: expected in the manifest, found only in the file", bundle.file,
                   entry.name);
  }
}

std::string ExpertsText(const Manifest& manifest, const BundleRecord& bundle) {
  shard::LayerExperts experts;
  for (const auto& [layer, count] : manifest.plan.layers) {
    experts[layer] = PartExperts(manifest.plan, bundle.role, bundle.group, layer);
  }
  return shard::LayerExpertsToJson(experts, manifest.plan.layers).dump();
}

// A bundle must say by itself what it is, in the words of the manifest.
void CompareMetadata(const Manifest& manifest, const BundleRecord& bundle,
                     const std::map<std::string, std::string>& metadata, RuleFindings& findings) {
  std::map<std::string, std::string> expected;
  // Files carry the version without a revision; with one, only the source can tell.
  if (manifest.model.revision.empty()) expected["moepack.model"] = manifest.versions.model;
  expected["moepack.role"] = shard::RoleName(bundle.role);
  if (bundle.role == shard::Role::kGroup) expected["moepack.group"] = Cat(bundle.group);
  if (bundle.role == shard::Role::kOverlay) {
    expected["moepack.overlay"] = manifest.plan.overlay_version;
  }
  if (bundle.role != shard::Role::kTrunk) {
    expected["moepack.experts"] = ExpertsText(manifest, bundle);
  }
  for (const auto& [key, value] : expected) {
    const auto found = metadata.find(key);
    if (found != metadata.end() && found->second == value) continue;
    findings.Error(Cat("__metadata__: ", key, ": expected ", Quoted(value), ", found ",
                       found == metadata.end() ? "none" : Quoted(found->second)),
                   bundle.file);
  }
}

Status CheckContainer(const fs::path& root, const Manifest& manifest, const BundleRecord& bundle,
                      RuleFindings& findings) {
  const fs::path path = root / bundle.file;
  SHARD_TRY(const shard::InputFile file, shard::InputFile::Open(path));
  SHARD_TRY(const std::string bytes, ReadHeader(file));
  SHARD_TRY(const shard::SafetensorsHeader header,
            shard::ParseSafetensors(bundle.file, std::as_bytes(std::span(bytes)), file.size()));
  CompareTensors(bundle, header, findings);
  CompareMetadata(manifest, bundle, header.metadata, findings);
  return shard::Ok();
}

}  // namespace

void CheckFiles(const std::string& directory, const Manifest& manifest,
                std::vector<CheckedFile>& files, Findings& findings) {
  std::error_code error;
  const fs::path root = fs::canonical(directory, error);
  for (CheckedFile& file : files) CheckPresence(root, file, findings);
  CheckDirectory(root, files, findings);
  RuleFindings container("container-header", findings);
  for (const CheckedFile& file : files) {
    if (file.bundle == nullptr || !file.readable) continue;
    if (file.bundle->format != "safetensors") {
      container.Error(Cat("format: expected safetensors, found ", Quoted(file.bundle->format)),
                      file.file);
      continue;
    }
    Status status = CheckContainer(root, manifest, *file.bundle, container);
    if (!status) container.Error(status.error().message, file.file);
  }
}

}  // namespace manifest
