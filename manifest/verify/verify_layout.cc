// Rules that need the source: files, headers and records must be those that source, plan and recipe
// give.
#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "libshard/base/text/text.h"
#include "libshard/format/read_header.h"
#include "manifest/document/describe_model.h"
#include "manifest/verify/verify_source_rules.h"

namespace moepack::manifest {

namespace {

// Returns everything that a record says about a tensor except its digest.
std::string TextOf(const TensorRecord& tensor) {
  std::string text = Cat(tensor.dtype, " ", FormatShape(tensor.shape), ", ", tensor.bytes,
                         " bytes at ", tensor.offset, ", ", LayerText(tensor.layer), ", experts \"",
                         FormatIds(tensor.expert_ids), "\"");
  if (!tensor.derived.empty()) text += Cat(", refitted \"", FormatIds(tensor.derived.ids()), "\"");
  if (!tensor.source.empty()) text += Cat(", source ", Quoted(tensor.source));
  return text;
}

class LayoutCheck {
 public:
  LayoutCheck(const std::vector<CheckedFile>& files, const std::vector<OutputFile>& expected,
              Findings& findings)
      : files_(files), tensors_("source-tensors", findings), headers_("source-headers", findings) {
    for (const OutputFile& file : expected) {
      expected_[file.path] = &file;
      parts_[PartOf(file)].push_back(&file);
    }
  }

  Status Run(const SourceTree& tree, bool compare_records) {
    for (const CheckedFile& file : files_) {
      if (file.bundle == nullptr) continue;
      const auto found = expected_.find(file.file);
      const OutputFile* expected = found == expected_.end() ? nullptr : found->second;
      const bool same_part = expected != nullptr && PartOf(*expected) == PartOf(*file.bundle);
      if (!same_part) {
        tensors_.Error(Cat("file: expected one that the source and the plan give ",
                           PartText(PartOf(*file.bundle)), ", found another"),
                       file.file);
        continue;
      }
      met_.insert(file.file);
      if (compare_records) CompareRecords(*expected, *file.bundle);
      if (file.readable) SHARD_CHECK(CompareHeader(tree, *expected));
    }
    CheckAllMet();
    return Ok();
  }

 private:
  // Checks that a part has either all its files or none.
  void CheckAllMet() {
    for (const CheckedFile& file : files_) {
      if (file.bundle == nullptr) continue;
      const auto part = parts_.find(PartOf(*file.bundle));
      if (part == parts_.end()) continue;
      for (const OutputFile* expected : part->second) {
        if (met_.contains(expected->path)) continue;
        tensors_.Error(
            Cat(PartText(PartOf(*expected)), ": expected this file, found none in the manifest"),
            expected->path);
      }
      // Each part is reported once, however many files of it are there.
      parts_.erase(part);
    }
  }

  void CompareRecords(const OutputFile& expected, const BundleRecord& bundle) {
    if (expected.size != bundle.size || expected.tensors.size() != bundle.tensors.size()) {
      tensors_.Error(
          Cat("file: expected ", Plural(expected.tensors.size(), "tensor"), " in ", expected.size,
              " bytes, found ", bundle.tensors.size(), " in ", bundle.size),
          bundle.file);
    }
    const size_t count = std::min(expected.tensors.size(), bundle.tensors.size());
    for (size_t i = 0; i < count; ++i) {
      const TensorRecord record = DescribeTensor(expected.tensors[i], "");
      const TensorRecord& found = bundle.tensors[i];
      if (record.name != found.name) {
        tensors_.Error(
            Cat("tensor ", i, " of the file: expected ", Quoted(record.name), ", found another"),
            bundle.file, found.name);
      } else if (const std::string a = TextOf(record), b = TextOf(found); a != b) {
        tensors_.Error(Cat("tensor: expected ", a, ", found ", b), bundle.file, found.name);
      }
    }
  }

  // Compares the bytes before the tensors. All of them are compared, because a header can hide
  // anything.
  Status CompareHeader(const SourceTree& tree, const OutputFile& expected) {
    SHARD_TRY(const ByteSourcePtr file, tree.Open(expected.path));
    std::string found(std::min<uint64_t>(expected.prefix.size(), file->size()), '\0');
    SHARD_CHECK(file->ReadAt(0, std::as_writable_bytes(std::span(found))));
    if (found == expected.prefix) return Ok();
    // The name of a key helps more than the place of a byte.
    if (expected.path.ends_with(".gguf") && CompareMetadata(*file, expected)) {
      return Ok();
    }
    const auto place =
        std::mismatch(found.begin(), found.end(), expected.prefix.begin(), expected.prefix.end());
    headers_.Error(Cat("header: byte ", place.first - found.begin(),
                       ": expected the header that the source gives, found another"),
                   expected.path);
    return Ok();
  }

  // Names the keys that differ, and returns false if none does.
  bool CompareMetadata(const ByteSource& file, const OutputFile& expected) {
    const auto found = ReadGgufHeader(file, expected.path);
    const auto wanted =
        ParseGguf(expected.path, std::as_bytes(std::span(expected.prefix)), expected.size);
    if (!found || !wanted) return false;
    std::map<std::string_view, std::pair<const GgufValue*, const GgufValue*>> keys;
    for (const GgufEntry& entry : wanted->metadata.entries()) {
      keys[entry.key].first = &entry.value;
    }
    for (const GgufEntry& entry : found->metadata.entries()) {
      keys[entry.key].second = &entry.value;
    }
    bool differs = false;
    for (const auto& [key, values] : keys) {
      const auto& [a, b] = values;
      if (a != nullptr && b != nullptr && *a == *b) continue;
      differs = true;
      headers_.Error(Cat("metadata ", Quoted(key), ": expected ",
                         a == nullptr ? "no such key" : "the source's value", ", found ",
                         b == nullptr   ? "none"
                         : a == nullptr ? "it"
                                        : "another"),
                     expected.path);
    }
    return differs;
  }

  const std::vector<CheckedFile>& files_;
  std::map<std::string, const OutputFile*> expected_;
  std::map<PartKey, std::vector<const OutputFile*>> parts_;
  std::set<std::string> met_;
  RuleFindings tensors_, headers_;
};

}  // namespace

Status CheckLayout(const SourceTree& tree, const std::vector<CheckedFile>& files,
                   const LayoutSource& source, Findings& findings) {
  return LayoutCheck(files, source.files, findings).Run(tree, source.compare_records);
}

void CheckAssetList(const Manifest& manifest, const std::vector<Asset>& assets,
                    RuleFindings& findings) {
  if (manifest.without_assets && !assets.empty()) {
    findings.Error(Cat("without_assets: expected false, as the source has ",
                       Plural(assets.size(), "asset"), ", found true"));
  }
  if (manifest.assets.empty() && !manifest.complete) return;  // a part that was left out
  std::set<std::string> listed;
  for (const AssetRecord& record : manifest.assets) listed.insert(record.file);
  for (const Asset& asset : assets) {
    const std::string file = Cat("assets/", asset.name);
    if (listed.contains(file)) continue;
    findings.Error("asset: expected a copy of this file of the source, found none", file);
  }
}

}  // namespace moepack::manifest
