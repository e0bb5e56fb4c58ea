#include "manifest/overlay/make_overlay.h"

#include <algorithm>
#include <deque>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "libshard/base/digest.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf.h"
#include "manifest/document/corrupt.h"
#include "manifest/document/describe_model.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/parts.h"
#include "manifest/document/read_back.h"
#include "manifest/node/node_files.h"
#include "manifest/overlay/distribution_routers.h"
#include "manifest/overlay/expert_sources.h"
#include "manifest/overlay/tensor_names.h"
#include "manifest/write/bundle.h"
#include "manifest/write/merge_parts.h"
#include "manifest/write/output_path.h"
#include "manifest/write/place_files.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

// If overlays have types of their own, their experts have other bytes than those of groups.
bool OverlaysHaveOwnTypes(const Manifest& manifest) {
  return manifest.recipe.name.find("--overlay-type") != std::string::npos;
}

// The files that experts may come from, the preferred first: overlays are small, and the newest has
// most of what the next one needs.
std::vector<const BundleRecord*> FilesWithExperts(const Manifest& manifest) {
  std::vector<const BundleRecord*> files;
  const auto add = [&](const PartKey& part) {
    for (const BundleRecord& bundle : manifest.bundles) {
      if (PartOf(bundle) == part) files.push_back(&bundle);
    }
  };
  const std::vector<OverlayPlan>& overlays = manifest.plan.overlays;
  for (auto overlay = overlays.rbegin(); overlay != overlays.rend(); ++overlay)
    add({Role::kOverlay, std::nullopt, overlay->version});
  if (OverlaysHaveOwnTypes(manifest)) return files;
  for (uint32_t group = 0; group < manifest.plan.groups.size(); ++group) add({Role::kGroup, group});
  add({Role::kRemainder});
  return files;
}

LayerExperts Without(const LayerExperts& wanted, const LayerExperts& there) {
  LayerExperts out;
  for (const auto& [layer, ids] : wanted) {
    ExpertIds left = moepack::Difference(ids, moepack::IdsOf(there, layer));
    if (!left.empty()) out[layer] = std::move(left);
  }
  return out;
}

class OverlayMaker {
 public:
  OverlayMaker(const std::string& distribution, std::string out, const OverlayOptions& options)
      : distribution_(distribution),
        out_(std::move(out)),
        options_(options),
        tree_(std::make_shared<const LocalTree>(distribution)) {}

  Result<OverlayReport> Run() {
    SHARD_CHECK(CheckOutsideInputs({distribution_}, {}, out_));
    SHARD_TRY(before_, ReadManifest(*tree_));
    SHARD_CHECK(Decide());
    SHARD_CHECK(OpenFiles());
    SHARD_CHECK(FindMissing());
    SHARD_CHECK(ListCarried());
    SHARD_CHECK(CheckReplaceable(out_, options_.force || options_.dry_run));
    return options_.dry_run ? Plan() : Write();
  }

 private:
  Status Decide() {
    std::optional<std::string> expected;
    for (const NamedScores& named : options_.request.scores) {
      if (named.scores.router_digest.empty()) continue;
      if (!expected) {
        SHARD_TRY(expected, RouterDigest(tree_, before_, options_.source.model.family_file));
      }
      SHARD_TRY(const std::string warning,
                CheckRouters(named.name, named.scores.router_digest, distribution_, *expected));
      if (!warning.empty()) report_.warnings.push_back(warning);
    }
    SHARD_TRY(DecidedOverlay decided, DecideOverlay(distribution_, before_.plan, options_.request));
    overlay_ = std::move(decided.overlay);
    report_.notes = std::move(decided.notes);
    return Ok();
  }

  Status OpenFiles() {
    if (before_.is_gguf() && !options_.source.model.family_file.empty() &&
        !options_.source.source) {
      return Error{Code::kInvalidArgument,
                   Cat("--family has no effect: ", distribution_, " has GGUF bundles"),
                   "leave it out: the names of a GGUF are the same for every family"};
    }
    for (const BundleRecord* record : FilesWithExperts(before_)) {
      SHARD_TRY(OpenedBundle opened, OpenBundle(tree_, *record, 0));
      if (alignment_ == 0 && before_.is_gguf()) {
        SHARD_TRY(alignment_, AlignmentOf(*tree_, *record));
      }
      opened_.push_back(std::move(opened));
    }
    if (alignment_ == 0) alignment_ = kGgufDefaultAlignment;
    SHARD_TRY(names_, TensorNames::Of(*tree_, before_, options_.source.model.family_file));
    sources_ = std::make_unique<ExpertSources>(before_, names_.family());
    for (OpenedBundle& bundle : opened_) sources_->Add(std::move(bundle));
    return Ok();
  }

  Status FindMissing() {
    const LayerExperts missing = Without(HeldBy(overlay_), sources_->Held());
    if (missing.empty()) return Ok();
    report_.source_experts = CountIds(missing);
    if (!options_.source.source) {
      const auto& [layer, ids] = *missing.begin();
      return Error{Code::kInvalidArgument,
                   Cat(distribution_, ": layer ", layer, ": experts ", FormatIds(ids),
                       ": expected in a file of the distribution",
                       OverlaysHaveOwnTypes(before_) ? " in the types of its overlays" : "",
                       ", found in none"),
                   "name the model that it was made of with --source"};
    }
    SHARD_TRY(missing_, LayOutMissing(before_, missing, options_.source, alignment_));
    return Ok();
  }

  // Everything that the output keeps is carried over unchanged.
  Status ListCarried() {
    after_ = before_;
    std::vector<OverlayPlan>& overlays = after_.plan.overlays;
    const size_t kept = std::min(options_.keep.value_or(overlays.size()), overlays.size());
    const auto end = overlays.end() - static_cast<std::ptrdiff_t>(kept);
    for (auto old = overlays.begin(); old != end; ++old) report_.dropped.push_back(old->version);
    overlays.erase(overlays.begin(), end);
    std::erase_if(after_.bundles, [&](const BundleRecord& bundle) {
      const std::string version = PartOf(bundle).overlay;
      return std::find(report_.dropped.begin(), report_.dropped.end(), version) !=
             report_.dropped.end();
    });
    for (const BundleRecord& bundle : after_.bundles)
      carried_.push_back({distribution_, tree_, bundle.file, bundle.size, bundle.sha256});
    for (const AssetRecord& asset : after_.assets)
      carried_.push_back({distribution_, tree_, asset.file, asset.size, asset.sha256, true});
    SHARD_CHECK(CheckOutsideInputs({distribution_}, carried_, out_));
    return CheckSizes(carried_);
  }

  Result<OverlayReport> Plan() {
    if (missing_.model) SHARD_CHECK(AddUnwritten());
    SHARD_TRY(GatheredFile gathered, sources_->LayOut(overlay_, alignment_));
    SHARD_CHECK(Describe(gathered.file, Unknown(gathered.file)));
    return std::move(report_);
  }

  Result<OverlayReport> Write() {
    std::optional<StagingDirectory> scratch;
    if (missing_.model) {
      SHARD_TRY(const fs::path name, ScratchName(out_, "experts"));
      SHARD_TRY(StagingDirectory opened, StagingDirectory::Open(name));
      scratch.emplace(std::move(opened));
      SHARD_CHECK(PackMissing(*scratch));
    }
    SHARD_TRY(GatheredFile gathered, sources_->LayOut(overlay_, alignment_));
    SHARD_CHECK(CheckCutTensors(gathered.cut, sources_->files(), options_.pack));
    std::vector<OutputFile> files;
    files.push_back(gathered.file);
    SHARD_TRY(StagingDirectory staging,
              StagingDirectory::Start(out_, Identity(files), OwnOutput()));
    SHARD_TRY(const PackResult packed, Pack(sources_->files(), files, staging, options_.pack));
    SHARD_CHECK(CheckCopied(files, packed.files, gathered.digests, sources_->files()));
    SHARD_CHECK(Describe(gathered.file, packed.files[0]));
    // Linking comes after packing, which would treat the new times of a hard link as a change.
    SHARD_CHECK(Carry(staging));
    SHARD_CHECK(staging.WriteText(kReadmeFile, DistributionReadme(after_)));
    staging.Expect(kManifestFile);
    SHARD_CHECK(WriteManifestFile(staging.files(), after_));
    SHARD_CHECK(staging.Publish(options_.force));
    for (const std::string& warning : staging.warnings()) report_.warnings.push_back(warning);
    if (scratch) SHARD_CHECK(scratch->Discard());
    return std::move(report_);
  }

  // Adds the experts from the source as they would be written.
  Status AddUnwritten() {
    const OutputFile& file = missing_.file;
    missing_record_ = DescribeBundle(file, Unknown(file), Format());
    OpenedBundle bundle;
    bundle.model = missing_.model->Version("");
    if (before_.is_gguf()) {
      SHARD_TRY(GgufHeader header,
                ParseGguf(file.path, std::as_bytes(std::span(file.prefix)), file.size));
      bundle.metadata = std::move(header.metadata);
    }
    for (size_t i = 0; i < file.tensors.size(); ++i)
      bundle.tensors.push_back({&missing_record_.tensors[i], file.tensors[i].entry});
    sources_->Add(std::move(bundle));
    return Ok();
  }

  // Writes the experts from the source into a file beside the output, from which they are copied
  // like those of groups.
  Status PackMissing(StagingDirectory& scratch) {
    std::vector<OutputFile> files;
    files.push_back(missing_.file);
    const std::vector<SourceFile>& sources = missing_.model->checkpoint().files();
    SHARD_CHECK(scratch.Begin(PackIdentity(sources, files)));
    SHARD_TRY(const PackResult packed, Pack(sources, files, scratch, options_.pack));
    missing_record_ = DescribeBundle(missing_.file, packed.files[0], Format());
    const SourceTreePtr tree = std::make_shared<const LocalTree>(scratch.path());
    SHARD_TRY(OpenedBundle opened, OpenBundle(tree, missing_record_, 0));
    sources_->Add(std::move(opened));
    return Ok();
  }

  std::string Format() const { return before_.is_gguf() ? "gguf" : "safetensors"; }

  static FileDigests Unknown(const OutputFile& file) {
    return {std::string(64, '0'), Xxh3List(file.tensors.size())};
  }

  std::string Identity(const std::vector<OutputFile>& files) const {
    return Sha256Hex(Cat(PackIdentity(sources_->files(), files), ManifestDigest(before_)));
  }

  // Completes the new manifest and the report.
  Status Describe(const OutputFile& file, const FileDigests& digests) {
    std::vector<BundleRecord> fresh;
    fresh.push_back(DescribeBundle(file, digests, Format()));
    ReplaceParts(std::move(fresh), after_.bundles);
    after_.plan.overlays.push_back(overlay_);
    after_.versions = ComputeVersions(before_.versions.model, after_.plan);
    SHARD_TRY(const uint64_t created, SourceDateEpoch());
    after_.created = std::max(after_.created, created);
    ForgetQuality();
    if (!options_.dry_run) SHARD_CHECK(ReadBackManifest(after_));
    report_.files.push_back({file.path, file.size, "", false});
    for (const JoinedFile& one : carried_) report_.files.push_back({one.file, one.size});
    report_.files.push_back({kReadmeFile, DistributionReadme(after_).size(), "", false});
    report_.files.push_back({kManifestFile, ManifestBytes(after_), "", false});
    for (Change& change : DiffManifests(before_, after_).changes) {
      if (change.what == "overlay") report_.changes.push_back(std::move(change));
    }
    report_.manifest = after_;
    return Ok();
  }

  // The split was measured with another overlay, so that measurement is dropped.
  void ForgetQuality() {
    after_.quality.reset();
    if (!after_.original || !after_.original->contains("quality")) return;
    auto original = std::make_shared<Json>(*after_.original);
    original->erase("quality");
    after_.original = std::move(original);
  }

  Status Carry(StagingDirectory& staging) {
    SHARD_TRY(const std::vector<LinkKind> links,
              PlaceFiles(carried_, options_.link, options_.pack, staging));
    std::vector<JoinedFile> copied;
    for (size_t i = 0; i < links.size(); ++i) {
      report_.files[i + 1].link = LinkName(links[i]);
      if (links[i] == LinkKind::kCopy) copied.push_back(carried_[i]);
    }
    return CheckPlaced(copied, options_.pack, staging.path());
  }

  const std::string& distribution_;
  const std::string out_;
  const OverlayOptions& options_;
  const std::shared_ptr<const LocalTree> tree_;
  Manifest before_, after_;
  OverlayPlan overlay_;
  std::vector<OpenedBundle> opened_;
  TensorNames names_;
  std::unique_ptr<ExpertSources> sources_;
  uint64_t alignment_ = 0;
  MissingExperts missing_;
  BundleRecord missing_record_;
  std::vector<JoinedFile> carried_;
  OverlayReport report_;
};

}  // namespace

uint64_t OverlayReport::total_bytes() const {
  uint64_t total = 0;
  for (const File& file : files) total += file.bytes;
  return total;
}

uint64_t OverlayReport::new_bytes() const {
  uint64_t total = 0;
  for (const File& file : files) total += file.carried ? 0 : file.bytes;
  return total;
}

Result<OverlayReport> MakeOverlay(const std::string& distribution, const std::string& out,
                                  const OverlayOptions& options) {
  Result<OverlayReport> report = OverlayMaker(distribution, out, options).Run();
  if (!report) return NameCorrupt(distribution, std::move(report).error());
  return report;
}

}  // namespace moepack::manifest
