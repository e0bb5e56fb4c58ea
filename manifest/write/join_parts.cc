#include "manifest/write/join_parts.h"

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "libshard/base/files/local_tree.h"
#include "libshard/base/text/text.h"
#include "libshard/refit/refit_store.h"
#include "manifest/document/first_difference.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/parts.h"
#include "manifest/document/unknown_fields.h"
#include "manifest/write/merge_parts.h"

namespace moepack::manifest {
namespace {

constexpr const char* kMergedFieldsOfSources[] = {
    "sha256", "url", "commit", "validator", "published_sha256", "verified"};

bool IsPartOfRefit(const Manifest& manifest) { return manifest.refit && IsPart(*manifest.refit); }

// Everything that must be the same in all inputs, and that this version knows, in the order in
// which differences are reported: the cause before the digests that depend on it.
Json Agreement(const Manifest& manifest) {
  Json head = HeadToJson(manifest);
  for (Json& file : head["model"]["source"]) {  // MergeSourceRecords
    for (const char* key : kMergedFieldsOfSources) file.erase(key);
  }
  Json out = Json::object();
  for (const char* section : {"model", "partition", "overlays", "versions", "routing", "stages",
                              "calibrated", "calibration", "quality"}) {
    if (head.contains(section)) out[section] = std::move(head[section]);
  }
  out["format of the bundles"] = manifest.is_gguf() ? "gguf" : "safetensors";
  out["tool"] = TailToJson(manifest)["tool"];
  out["tool"].erase("command");  // MergeCommands
  out["tool"].erase("created");
  if (IsPartOfRefit(manifest)) out["versions"]["refit"] = "of a part";  // PartsJoiner::AddRefit
  return out;
}

// The fields that this version does not know, without those of files.
Json UnknownAgreement(const Manifest& manifest) {
  Json out = *manifest.original;
  out.erase("bundles");
  out.erase("assets");
  return out;
}

// A manifest whose parts are added, and the names of its input.
struct Added {
  const std::string& from;
  const SourceTreePtr& tree;
  Manifest& manifest;
  std::string where() const { return tree->NameOf(kManifestFile); }
};

Error Differs(const Added& added, const Difference& difference, std::string hint) {
  return Error{Code::kMismatch,
               Cat(added.where(), ": ", difference.thing, ": expected ", difference.expected,
                   ", found ", difference.found),
               std::move(hint)};
}

std::optional<Difference> DifferenceOfTensors(const BundleRecord& a, const BundleRecord& b) {
  if (a.tensors.size() != b.tensors.size()) {
    return Difference{"number of tensors", Cat(a.tensors.size()), Cat(b.tensors.size())};
  }
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    const std::string thing = Cat("tensor ", Quoted(a.tensors[i].name));
    auto found = FirstDifference(thing, TensorToJson(a.tensors[i]), TensorToJson(b.tensors[i]));
    if (found) return found;
  }
  return std::nullopt;
}

class PartsJoiner {
 public:
  Status Add(const Added& added) {
    if (inputs_.empty()) {
      Start(added);
    } else {
      SHARD_CHECK(CheckAgrees(added));
    }
    SHARD_CHECK(AddRefit(added));
    inputs_.push_back({added.from, added.tree});
    SHARD_CHECK(AddBundles(added));
    return AddAssets(added);
  }

  Result<JoinedParts> Finish() && {
    SHARD_CHECK(FinishRefit());
    ReplaceParts(std::move(bundles_), manifest_.bundles);
    SetComplete(!source_lacks_assets_, manifest_);
    if (!unknown_bundles_.empty()) unknown_["bundles"] = std::move(unknown_bundles_);
    if (!unknown_assets_.empty()) unknown_["assets"] = std::move(unknown_assets_);
    manifest_.original = std::make_shared<const Json>(std::move(unknown_));
    JoinedParts out;
    for (const BundleRecord& bundle : manifest_.bundles) {
      out.files.push_back(FileOf(bundle.file, bundle.size, bundle.sha256));
    }
    for (const AssetRecord& asset : manifest_.assets) {
      out.files.push_back(FileOf(asset.file, asset.size, asset.sha256));
      out.files.back().asset = true;
    }
    out.manifest = std::move(manifest_);
    return out;
  }

 private:
  struct Input {
    std::string from;
    SourceTreePtr tree;
  };
  using Files = std::vector<size_t>;  // indexes into bundles_, sorted by file

  void Start(const Added& added) {
    agreement_ = Agreement(added.manifest);
    unknown_ = UnknownAgreement(added.manifest);
    static_cast<ManifestHead&>(manifest_) = added.manifest;
    manifest_.assets.clear();
  }

  // What parts of a refit say of their groups makes what a whole one says of all.
  Status AddRefit(const Added& added) {
    if (!IsPartOfRefit(added.manifest)) return Ok();
    RefitRecord part = *added.manifest.refit;
    one_part_ = one_part_ && part == *manifest_.refit;
    ForgetGroups(part);
    if (!refit_) {
      refit_ = std::move(part);
      return Ok();
    }
    const Status same = CheckSameRefit(added.from, *refit_, part);
    if (!same) {
      Error error = same.error();
      error.hint = AsInFirst();
      return error;
    }
    return MergeOutcomes(added.where(), part, *refit_);
  }

  Status FinishRefit() {
    if (!refit_) return Ok();
    for (const RefitOutcome& outcome : refit_->outcomes) {
      for (uint32_t group = 0; group < manifest_.plan.groups.size(); ++group) {
        if (refit_->Find(outcome.layer, group) != nullptr) continue;
        // What was made from the store of one part is still of that part.
        if (one_part_) return Ok();
        return Error{Code::kNotFound,
                     Cat(inputs_[0].from, ": refit: expected all groups in the parts together, ",
                         "found none of group ", group, " in layer ", outcome.layer),
                     "refit that group, too, and join all parts"};
      }
    }
    ForgetPart(*refit_);
    manifest_.versions.refit = RefitVersion(*refit_);
    manifest_.refit = std::make_shared<const RefitRecord>(*std::move(refit_));
    return Ok();
  }

  std::string AsInFirst() const {
    return Cat("expected as in ", inputs_[0].from,
               ": parts fit together only if the same moepack made them of one source, with one "
               "plan and the same options but --only");
  }

  // `thing` differs between the first input and this one.
  std::string HintFor(const Manifest& manifest, const std::string& thing) const {
    const bool first = IsPartOfRefit(manifest_), other = IsPartOfRefit(manifest);
    if (first != other && thing == "versions.refit")
      return Cat(AsInFirst(), "; one was built from a part of a refit: `moepack join` makes one ",
                 "store of all parts, for --refit-store");
    const bool weighed = thing.starts_with("tool.imatrix");
    if (!first || !other || (!weighed && !thing.starts_with("calibrated"))) return AsInFirst();
    return Cat("each was quantized for its own part of the refit: build both from the store that ",
               "`moepack join` makes of all parts",
               weighed ? ", or with --no-refit-imatrix, or with the same --imatrix" : "");
  }

  Status CheckAgrees(const Added& added) {
    const Manifest& manifest = added.manifest;
    const auto known = FirstDifference("", agreement_, Agreement(manifest));
    if (known) return Differs(added, *known, HintFor(manifest, known->thing));
    SHARD_CHECK(MergeSourceRecords(added.where(), manifest.model.source, manifest_.model.source));
    auto command = MergeCommands(manifest_.command, manifest.command);
    if (!command) {
      const Difference difference{"tool.command", Quoted(Join(manifest_.command, " ")),
                                  Quoted(Join(manifest.command, " "))};
      return Differs(added, difference, AsInFirst());
    }
    manifest_.command = *std::move(command);
    manifest_.created = std::max(manifest_.created, manifest.created);
    Json unknown = UnknownAgreement(manifest);
    const auto other = FirstDifference("", unknown_, unknown);
    if (other) return Differs(added, *other, AsInFirst());
    // They may differ in the order of keys, and the result must not depend on the order of inputs.
    if (unknown.dump() < unknown_.dump()) unknown_ = std::move(unknown);
    return Ok();
  }

  Status AddBundles(const Added& added) {
    const Manifest& manifest = added.manifest;
    std::map<PartKey, std::vector<BundleRecord*>> parts;
    for (BundleRecord& bundle : added.manifest.bundles) {
      parts[PartOf(bundle)].push_back(&bundle);
    }
    const RecordIndex unknown = IndexRecords(*manifest.original, "bundles");
    for (auto& [part, files] : parts) {
      std::sort(files.begin(), files.end(),
                [](const auto* a, const auto* b) { return a->file < b->file; });
      const auto there = parts_.find(part);
      if (there != parts_.end()) {
        SHARD_CHECK(CheckSamePart(added, there->second, files));
        continue;
      }
      for (BundleRecord* file : files) {
        SHARD_CHECK(TakeName(added, file->file));
        const auto kept = unknown.find(file->file);
        if (kept != unknown.end()) unknown_bundles_.push_back(*kept->second);
        parts_[part].push_back(bundles_.size());
        bundles_.push_back(std::move(*file));
      }
    }
    return Ok();
  }

  Status TakeName(const Added& added, const std::string& file) {
    if (from_.emplace(file, inputs_.size() - 1).second) return Ok();
    return Differs(added, {Cat("file ", Quoted(file)), "one part of this name", "two"},
                   Cat("the other part is in ", inputs_[from_.at(file)].from));
  }

  Status CheckSamePart(const Added& added, const Files& there,
                       const std::vector<BundleRecord*>& files) const {
    const BundleRecord& first = bundles_[there[0]];
    const std::string part = PartText(PartOf(first));
    const std::string hint = Cat("expected as in ", inputs_[from_.at(first.file)].from,
                                 ", which holds this part too: leave out the input that is wrong");
    if (there.size() != files.size()) {
      return Differs(added, {Cat(part, ": files"), Cat(there.size()), Cat(files.size())}, hint);
    }
    for (size_t i = 0; i < files.size(); ++i) {
      const BundleRecord& a = bundles_[there[i]];
      const BundleRecord& b = *files[i];
      auto found = FirstDifference("", BundleToJson(a), BundleToJson(b));
      // A record without its tensors is short, so the usual difference is found soon.
      if (!found) found = DifferenceOfTensors(a, b);
      if (!found) continue;
      found->thing = Cat(part, ": file ", Quoted(b.file), ": ", found->thing);
      return Differs(added, *found, hint);
    }
    return Ok();
  }

  // The assets are one part.
  Status AddAssets(const Added& added) {
    const Manifest& manifest = added.manifest;
    const std::vector<AssetRecord>& assets = manifest.assets;
    if (assets.empty()) {
      source_lacks_assets_ |= manifest.complete || manifest.without_assets;
      return Ok();
    }
    if (manifest_.assets.empty()) {
      const RecordIndex unknown = IndexRecords(*manifest.original, "assets");
      for (const AssetRecord& asset : assets) {
        SHARD_CHECK(TakeName(added, asset.file));
        const auto kept = unknown.find(asset.file);
        if (kept != unknown.end()) unknown_assets_.push_back(*kept->second);
      }
      manifest_.assets = assets;
      return Ok();
    }
    const auto list = [](const std::vector<AssetRecord>& records) {
      Json out = Json::array();
      for (const AssetRecord& record : records) out.push_back(AssetToJson(record));
      return out;
    };
    const auto found = FirstDifference("assets", list(manifest_.assets), list(assets));
    if (!found) return Ok();
    return Differs(added, *found,
                   Cat("expected as in ", inputs_[from_.at(manifest_.assets[0].file)].from,
                       ": the files beside the source are not the same"));
  }

  JoinedFile FileOf(const std::string& file, uint64_t size, const std::string& sha256) const {
    const Input& input = inputs_[from_.at(file)];
    return {input.from, input.tree, file, size, sha256};
  }

  std::vector<Input> inputs_;
  Manifest manifest_;  // without bundles until Finish
  std::vector<BundleRecord> bundles_;
  std::map<PartKey, Files> parts_;
  std::map<std::string, size_t> from_;  // file -> input
  Json agreement_, unknown_;            // of the first input
  std::optional<RefitRecord> refit_;    // of parts of a refit: all that they say
  bool one_part_ = true;                // they all say the same
  Json unknown_bundles_ = Json::array(), unknown_assets_ = Json::array();
  bool source_lacks_assets_ = false;
};

}  // namespace

Result<JoinedParts> JoinParts(const std::vector<std::string>& inputs) {
  PartsJoiner joiner;
  for (const std::string& input : inputs) {
    const SourceTreePtr tree = std::make_shared<const LocalTree>(input);
    SHARD_TRY(Manifest manifest, ReadManifest(*tree));
    SHARD_CHECK(joiner.Add({input, tree, manifest}));
  }
  return std::move(joiner).Finish();
}

}  // namespace moepack::manifest
