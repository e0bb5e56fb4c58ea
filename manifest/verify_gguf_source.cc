// GGUF bundles against their source. Types may have changed on the way, so there are no bytes to
// compare with: every tensor is made again, with the type that the manifest gives it, and its
// digest compared.
#include <algorithm>
#include <map>
#include <tuple>

#include "libshard/imatrix.h"
#include "libshard/pack.h"
#include "libshard/quantize.h"
#include "libshard/read_header.h"
#include "libshard/slice_gguf.h"
#include "libshard/text.h"
#include "manifest/describe_model.h"
#include "manifest/open_bundle.h"
#include "manifest/verify_rules.h"

namespace manifest {

using shard::Cat;
using shard::Quoted;
using shard::Role;

namespace {

struct Place {
  const BundleRecord* bundle = nullptr;
  const TensorRecord* tensor = nullptr;
};
// Role, group, name of the tensor.
using Key = std::tuple<Role, int, std::string>;

std::map<Key, Place> PlacesOf(const Manifest& manifest) {
  std::map<Key, Place> places;
  for (const BundleRecord& bundle : manifest.bundles) {
    for (const TensorRecord& tensor : bundle.tensors) {
      places[{bundle.role, bundle.group, tensor.name}] = {&bundle, &tensor};
    }
  }
  return places;
}

// The type that the distribution gives each tensor; the overlay may have its own.
struct Types {
  std::map<std::string, const quant::Format*> own, overlay;
};

Types TypesOf(const Manifest& manifest) {
  Types types;
  for (const BundleRecord& bundle : manifest.bundles) {
    auto& map = bundle.role == Role::kOverlay ? types.overlay : types.own;
    for (const TensorRecord& tensor : bundle.tensors) {
      map[tensor.name] = quant::FindFormat(tensor.dtype);
    }
  }
  return types;
}

class GgufSourceCheck {
 public:
  GgufSourceCheck(const Manifest& manifest, const shard::MoeModel& model,
                  const VerifyOptions& options, VerifyReport& report)
      : manifest_(manifest),
        model_(model),
        options_(options),
        report_(report),
        places_(PlacesOf(manifest)),
        tensors_("source-tensors", report.findings),
        bytes_("source-bytes", report.findings) {}

  Status Run(const std::string& directory) {
    SHARD_TRY(shard::GgufModel view, shard::ToGguf(model_, options_.convert));
    SHARD_CHECK(UseImatrix(view));
    const std::vector<const quant::Format*> overlay = SetTypes(view);
    // Distributions may have been written with another alignment than the default: with
    // --alignment, or by moepack 0.x.
    SHARD_TRY(const uint64_t alignment, AlignmentOf(directory, manifest_.bundles[0]));
    const shard::GgufSlicing slicing{view, model_.Version(""), overlay, alignment};
    const shard::SliceOptions whole{.parts = {}, .keep_remainder = true, .max_part_size = 0};
    SHARD_TRY(std::vector<shard::OutputFile> files,
              shard::SliceGguf(slicing, manifest_.plan, whole));
    std::erase_if(files, [&](const shard::OutputFile& file) { return !Listed(file); });
    shard::PackOptions pack;
    pack.jobs = options_.jobs;
    SHARD_TRY(const std::vector<shard::FileDigests> digests,
              shard::DigestOutputs(model_.checkpoint().files(), files, pack));
    for (size_t i = 0; i < files.size(); ++i) Compare(files[i], digests[i]);
    for (const auto& [key, place] : places_) {
      tensors_.Error(
          "tensor: expected one that the source and the plan give this part, found another",
          place.bundle->file, place.tensor->name);
    }
    return CheckHead(view, directory);
  }

 private:
  Status UseImatrix(shard::GgufModel& view) const {
    const RecipeRecord& recipe = manifest_.recipe;
    if (recipe.imatrix_file.empty()) return shard::Ok();
    if (options_.imatrix_file.empty()) {
      return shard::Error{shard::Code::kInvalidArgument,
                          Cat("--imatrix: expected the importance matrix ",
                              Quoted(recipe.imatrix_file), " of the recipe, found none")};
    }
    SHARD_TRY(const shard::Imatrix imatrix, shard::ReadImatrix(options_.imatrix_file));
    if (imatrix.sha256 != recipe.imatrix_sha256) {
      return shard::Error{shard::Code::kMismatch,
                          Cat(options_.imatrix_file, ": sha256: expected ", recipe.imatrix_sha256,
                              ", found ", imatrix.sha256)};
    }
    SHARD_TRY(const shard::ImatrixUse use, shard::ApplyImatrix(imatrix, view));
    return shard::Ok();
  }

  // Gives each tensor the type it has in the distribution; returns those of the overlay.
  std::vector<const quant::Format*> SetTypes(shard::GgufModel& view) const {
    const Types types = TypesOf(manifest_);
    const bool repack = shard::RecipeRepacks(manifest_.recipe.name);
    std::vector<const quant::Format*> overlay(view.tensors.size(), nullptr);
    for (size_t i = 0; i < view.tensors.size(); ++i) {
      shard::GgufTensor& tensor = view.tensors[i];
      tensor.repack = repack;
      const auto own = types.own.find(tensor.name);
      if (own != types.own.end() && own->second != nullptr) tensor.type = own->second;
      const auto other = types.overlay.find(tensor.name);
      if (other != types.overlay.end()) overlay[i] = other->second;
    }
    return overlay;
  }

  // A distribution may lack parts on purpose.
  bool Listed(const shard::OutputFile& file) const {
    return std::any_of(manifest_.bundles.begin(), manifest_.bundles.end(),
                       [&](const BundleRecord& bundle) {
                         return bundle.role == file.role && bundle.group == file.group;
                       });
  }

  void Compare(const shard::OutputFile& file, const shard::FileDigests& digests) {
    for (size_t i = 0; i < file.tensors.size(); ++i) {
      const TensorRecord expected = DescribeTensor(file.tensors[i], digests.tensors[i]);
      const auto found = places_.find({file.role, file.group, expected.name});
      if (found == places_.end()) {
        tensors_.Error(Cat(PartText(file.role, file.group), ": expected once, found 0 times"), "",
                       expected.name);
        continue;
      }
      CompareTensor(expected, found->second);
      places_.erase(found);
      report_.source_bytes += expected.bytes;
    }
  }

  void CompareTensor(const TensorRecord& expected, const Place& place) {
    const std::string a = Text(expected);
    const std::string b = Text(*place.tensor);
    if (a != b) {
      tensors_.Error(Cat("tensor: expected ", a, ", found ", b), place.bundle->file, expected.name);
    } else if (expected.xxh3 != place.tensor->xxh3) {
      bytes_.Error(Cat("bytes made from the source: expected xxh3-128 ", expected.xxh3, ", found ",
                       place.tensor->xxh3),
                   place.bundle->file, expected.name);
    }
  }

  static std::string Text(const TensorRecord& tensor) {
    return Cat(tensor.dtype, " ", shard::FormatShape(tensor.shape), ", layer ", tensor.layer,
               ", experts \"", shard::FormatIds(tensor.experts), "\"");
  }

  // The head has the source's metadata; what a recipe adds is not the source's.
  Status CheckHead(const shard::GgufModel& view, const std::string& directory) {
    for (const BundleRecord& bundle : manifest_.bundles) {
      if (bundle.role != Role::kHead) continue;
      const auto path = shard::fs::path(directory) / bundle.file;
      SHARD_TRY(const shard::InputFile file, shard::InputFile::Open(path));
      SHARD_TRY(const shard::GgufHeader head, shard::ReadGgufHeader(file, bundle.file));
      CompareMetadata(view.metadata, head.metadata, bundle.file);
    }
    return shard::Ok();
  }

  // GgufMetadata::Find looks at one key after the other; hostile files have very many.
  using ValuesByKey = std::map<std::string_view, const shard::GgufValue*>;
  static ValuesByKey ByKey(const shard::GgufMetadata& metadata) {
    ValuesByKey values;
    for (const shard::GgufEntry& entry : metadata.entries()) values[entry.key] = &entry.value;
    return values;
  }

  void CompareMetadata(const shard::GgufMetadata& source, const shard::GgufMetadata& head,
                       const std::string& file) {
    const ValuesByKey expected = ByKey(source), present = ByKey(head);
    for (const shard::GgufEntry& entry : source.entries()) {
      if (FromRecipe(entry.key)) continue;
      const auto found = present.find(entry.key);
      if (found != present.end() && *found->second == entry.value) continue;
      tensors_.Error(Cat("metadata ", Quoted(entry.key), ": expected the source's value, found ",
                         found == present.end() ? "none" : "another"),
                     file);
    }
    for (const shard::GgufEntry& entry : head.entries()) {
      if (FromRecipe(entry.key) || expected.contains(entry.key)) continue;
      tensors_.Error(
          Cat("metadata ", Quoted(entry.key), ": expected only the source's keys, found it"), file);
    }
  }

  static bool FromRecipe(const std::string& key) {
    return key == "general.file_type" || key == "general.quantization_version" ||
           key == "general.alignment" || key.starts_with("quantize.imatrix.");
  }

  const Manifest& manifest_;
  const shard::MoeModel& model_;
  const VerifyOptions& options_;
  VerifyReport& report_;
  std::map<Key, Place> places_;  // those not met yet
  RuleFindings tensors_, bytes_;
};

}  // namespace

Status CheckGgufAgainst(const Manifest& manifest, const std::string& directory,
                        const shard::MoeModel& model, const VerifyOptions& options,
                        VerifyReport& report) {
  return GgufSourceCheck(manifest, model, options, report).Run(directory);
}

}  // namespace manifest
