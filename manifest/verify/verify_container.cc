// Compares the header of a bundle with the manifest: its tensors, and what it says about itself.
#include "manifest/verify/verify_container.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "libshard/base/limits.h"
#include "libshard/base/text/text.h"
#include "libshard/base/text_map.h"
#include "libshard/format/gguf_key_types.h"
#include "libshard/format/read_header.h"
#include "libshard/model/gguf_architectures.h"
#include "libshard/model/gguf_keys.h"
#include "manifest/verify/verify_rules.h"
#include "manifest/write/open_bundle.h"

namespace moepack::manifest {

namespace fs = std::filesystem;

namespace {

using Words = std::map<std::string, std::string>;

std::string TensorText(const std::string& dtype, const std::vector<uint64_t>& shape,
                       uint64_t offset, uint64_t bytes) {
  return Cat(dtype, " ", FormatShape(shape), ", ", bytes, " bytes at ", offset);
}

void CompareTensors(const BundleRecord& bundle, const std::vector<TensorEntry>& tensors,
                    RuleFindings& findings) {
  TextMap<std::string_view, const TensorEntry*> entries;
  for (const TensorEntry& entry : tensors) entries[entry.name] = &entry;
  for (const TensorRecord& tensor : bundle.tensors) {
    const auto found = entries.find(tensor.name);
    if (found == entries.end()) {
      findings.Error("tensor: expected in the file's header, found none", bundle.file, tensor.name);
      continue;
    }
    const TensorEntry& entry = *found->second;
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
  for (const TensorEntry& entry : tensors) {
    if (!entries.contains(entry.name)) continue;
    findings.Error("tensor: expected in the manifest, found only in the file", bundle.file,
                   entry.name);
  }
}

std::string ExpertsText(const Manifest& manifest, const BundleRecord& bundle) {
  LayerExperts experts_by_layer;
  for (const auto& [layer, count] : manifest.plan.layers) {
    experts_by_layer[layer] = PartExperts(manifest.plan, PartOf(bundle), layer);
  }
  return LayerExpertsToJson(experts_by_layer, manifest.plan.layers).dump();
}

// A bundle's metadata must say what it is, in the words of the manifest.
void CompareMetadata(const Manifest& manifest, const BundleRecord& bundle, const Words& metadata,
                     RuleFindings& findings) {
  if (bundle.role == Role::kHead) return;  // the head has the source's metadata instead
  Words expected;
  // Files have the version without a revision; with one, only the source can tell.
  if (manifest.model.revision.empty()) expected["moepack.model"] = manifest.versions.model;
  expected["moepack.role"] = RoleName(bundle.role);
  if (bundle.group) expected["moepack.group"] = Cat(*bundle.group);
  if (bundle.role == Role::kOverlay) {
    expected["moepack.overlay"] = PartOf(bundle).overlay;
  }
  if (bundle.role >= Role::kGroup) {
    expected["moepack.experts"] = ExpertsText(manifest, bundle);
  }
  for (const auto& [key, value] : expected) {
    const auto found = metadata.find(key);
    if (found != metadata.end() && found->second == value) continue;
    findings.Error(Cat("metadata: ", key, ": expected ", Quoted(value), ", found ",
                       found == metadata.end() ? "none" : Quoted(found->second)),
                   bundle.file);
  }
}

// Returns the moepack.* keys of a GGUF file.
Words WordsOf(const GgufMetadata& metadata) {
  Words words;
  for (const GgufEntry& entry : metadata.entries()) {
    if (const auto text = entry.value.AsString()) {
      words[entry.key] = std::string(*text);
    } else if (const auto number = entry.value.AsUint()) {
      words[entry.key] = Cat(*number);
    }
  }
  return words;
}

Status CheckSafetensors(const ByteSource& file, const Manifest& manifest,
                        const BundleRecord& bundle, RuleFindings& findings) {
  SHARD_TRY(const SafetensorsHeader header, ReadSafetensorsHeader(file, bundle.file));
  CompareTensors(bundle, header.tensors, findings);
  CompareMetadata(manifest, bundle, header.metadata, findings);
  return Ok();
}

// The head's keys must be such that llama.cpp loads a node: each has the type that it reads, and
// every block that they announce has tensors.
void CheckHeadKeys(const Manifest& manifest, const BundleRecord& bundle, GgufMetadata metadata,
                   RuleFindings& findings) {
  const std::string architecture = metadata.Architecture();
  for (const std::string& wrong : CorrectGgufTypes("metadata", metadata))
    findings.Error(wrong, bundle.file);
  std::set<uint64_t> there;
  bool trunk = false;
  for (const BundleRecord& other : manifest.bundles) {
    trunk = trunk || other.role == Role::kTrunk;
    for (const TensorRecord& tensor : other.tensors) {
      if (const auto name = ParseBlockName(tensor.name)) there.insert(name->block);
    }
  }
  if (!trunk) return;  // left out of this distribution
  const std::string key = architecture + ".block_count";
  const uint64_t mtp = metadata.Uint(architecture + ".nextn_predict_layers").value_or(0);
  const uint64_t blocks = metadata.Uint(key).value_or(0);
  const uint64_t needed = NeedsMtp(architecture) ? blocks : blocks - std::min(mtp, blocks);
  for (uint64_t block = 0; block < std::min<uint64_t>(needed, kMaxLayers); ++block) {
    if (there.contains(block)) continue;
    findings.Error(Cat("metadata: ", key, " is ", blocks, ": expected tensors of block ", block,
                       ", found none"),
                   bundle.file);
    return;
  }
}

Status CheckGguf(const ByteSource& file, const Manifest& manifest, const BundleRecord& bundle,
                 RuleFindings& findings) {
  SHARD_TRY(const GgufHeader header, ReadGgufHeader(file, bundle.file));
  CompareTensors(bundle, header.tensors, findings);
  CompareMetadata(manifest, bundle, WordsOf(header.metadata), findings);
  if (bundle.role == Role::kHead) CheckHeadKeys(manifest, bundle, header.metadata, findings);
  return Ok();
}

}  // namespace

Status CheckContainer(const SourceTree& tree, const Manifest& manifest, const BundleRecord& bundle,
                      RuleFindings& findings) {
  SHARD_TRY(const ByteSourcePtr file, tree.Open(bundle.file));
  if (bundle.format == "safetensors") return CheckSafetensors(*file, manifest, bundle, findings);
  if (bundle.format == "gguf") return CheckGguf(*file, manifest, bundle, findings);
  findings.Error(Cat("format: expected safetensors or gguf, found ", Quoted(bundle.format)),
                 bundle.file);
  return Ok();
}

Status CheckHeader(const SourceTree& distribution, const Manifest& manifest,
                   const BundleRecord& bundle) {
  Findings found;
  RuleFindings findings("container-header", found);
  SHARD_CHECK(CheckContainer(distribution, manifest, bundle, findings));
  if (found.empty()) return Ok();
  const Finding& first = found[0];
  const std::string tensor = first.tensor.empty() ? "" : Cat("tensor ", Quoted(first.tensor), ": ");
  return Error{Code::kMismatch, Cat(distribution.NameOf(bundle.file), ": ", tensor, first.message),
               kCorruptHint};
}

}  // namespace moepack::manifest
