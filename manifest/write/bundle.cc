#include "manifest/write/bundle.h"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <system_error>

#include "libshard/base/digest.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/files/scan_file.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"
#include "manifest/document/describe_model.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/parts.h"
#include "manifest/document/read_back.h"
#include "manifest/write/merge_parts.h"
#include "manifest/write/open_bundle.h"
#include "manifest/write/output_path.h"

namespace moepack::manifest {
namespace {

namespace fs = moepack::fs;

std::string OrNone(const std::string& version) { return version.empty() ? "none" : version; }

// Parts only fit together if they have the same container and recipe.
Status CheckSameRecipe(const std::string& out, const Manifest& existing, const Manifest& fresh) {
  if (existing.recipe == fresh.recipe) return Ok();
  const auto text = [](const RecipeRecord& recipe) {
    if (recipe.name.empty()) return std::string("safetensors");
    return Cat(recipe.name, recipe.imatrix_file.empty() ? "" : " with ", recipe.imatrix_file);
  };
  return Error{Code::kInvalidArgument,
               Cat(out, ": recipe of the distribution there: expected ", text(fresh.recipe),
                   ", found ", text(existing.recipe)),
               "parts can only be added to a distribution of the same format and recipe"};
}

Status CheckSameCalibrated(const std::string& out, const Manifest& existing,
                           const Manifest& fresh) {
  const auto text = [](const Manifest& manifest) {
    return manifest.calibrated ? WriteJson(CalibratedToJson(*manifest.calibrated)) : "";
  };
  if (text(existing) == text(fresh)) return Ok();
  return Error{Code::kInvalidArgument,
               Cat(out, ": calibration of the distribution there: expected ",
                   fresh.calibrated ? "that of this run" : "none", ", found ",
                   !existing.calibrated ? "none"
                   : fresh.calibrated   ? "another"
                                        : "one"),
               "parts can only be added to a distribution of the same calibration"};
}

// Returns the distribution at `out` to which a selection of parts is added; no value when `out`
// is free.
Result<std::optional<Manifest>> FindExisting(const std::string& out, const Manifest& fresh,
                                             const WriteOptions& options) {
  if (options.slice.parts.all) {
    SHARD_CHECK(CheckReplaceable(out, options.force));
    return std::optional<Manifest>();
  }
  SHARD_TRY(const bool free, IsFreeOutput(out));
  if (free) return std::optional<Manifest>();
  SHARD_TRY(Manifest existing, ReadManifest(out));
  const Versions& a = existing.versions;
  const Versions& b = fresh.versions;
  if (a == b) {
    SHARD_CHECK(CheckSameRecipe(out, existing, fresh));
    SHARD_CHECK(CheckSameCalibrated(out, existing, fresh));
    return std::optional(std::move(existing));
  }
  const bool same_plan = a.model == b.model && a.shard == b.shard && a.replica == b.replica;
  return Error{
      Code::kInvalidArgument,
      Cat(out, ": versions of the distribution there: expected model ", b.model, ", shard ",
          b.shard, ", replica ", OrNone(b.replica), ", refit ", OrNone(b.refit), ", found ",
          a.model, ", ", a.shard, ", ", OrNone(a.replica), ", ", OrNone(a.refit)),
      same_plan ? "parts can only be added to a distribution of the same refit; what is made from "
                  "parts of a refit goes to directories of its own, for `moepack join`"
                : "parts can only be added to a distribution of the same model and plan"};
}

// Returns the directory to write. When parts are added and `out` is a link, it is the link's
// target, so that the lock is the same under every name of the distribution.
fs::path TargetOf(const std::string& out, const WriteOptions& options) {
  std::error_code error;
  fs::path whole = CanonicalPath(out, error);
  return options.slice.parts.all || error ? fs::path(out) : whole;
}

std::set<std::string> ListedFiles(const Manifest& manifest) {
  std::set<std::string> files;
  for (const BundleRecord& bundle : manifest.bundles) files.insert(bundle.file);
  for (const AssetRecord& asset : manifest.assets) files.insert(asset.file);
  return files;
}

// Checks that no file to be written or removed is behind a link, which could lead out of the
// distribution.
Status CheckNoLinks(const InsideDirectory& directory, const Manifest& existing,
                    const std::vector<OutputFile>& files) {
  std::set<std::string> names = ListedFiles(existing);
  for (const OutputFile& file : files) names.insert(file.path);
  for (const std::string& name : names) SHARD_CHECK(directory.KindOf(name));
  return Ok();
}

bool IsPart(const BundleRecord& record, const OutputFile& file) {
  return PartOf(record) == PartOf(file);
}

// All parts must have the same alignment: a reader that needs pages needs them in old and new parts
// alike.
Status CheckSameAlignment(const std::string& out, const Manifest& existing,
                          const std::vector<OutputFile>& files, uint64_t expected) {
  const LocalTree tree(out);
  for (const BundleRecord& record : existing.bundles) {
    const bool replaced = std::any_of(files.begin(), files.end(),
                                      [&](const auto& file) { return IsPart(record, file); });
    if (replaced) continue;
    const Result<uint64_t> found = AlignmentOf(tree, record);
    if (!found && found.error().code != Code::kNotFound) return found.error();
    // a distribution may have been copied without some of its parts
    if (!found || *found == expected) continue;
    return Error{
        Code::kInvalidArgument,
        Cat(out, "/", record.file, ": alignment: expected ", expected, ", found ", *found),
        Cat("parts can only be added at the alignment of those that stay: use --alignment ",
            *found)};
  }
  return Ok();
}

// Compares parts, not file names, because a part divided into files of another size is still the
// same part.
Status CheckPartsAreNew(const std::string& out, const Manifest& existing,
                        const std::vector<OutputFile>& files, bool force) {
  for (const OutputFile& file : files) {
    const auto there =
        std::find_if(existing.bundles.begin(), existing.bundles.end(),
                     [&](const BundleRecord& record) { return IsPart(record, file); });
    if (force || there == existing.bundles.end()) continue;
    return Error{Code::kInvalidArgument,
                 Cat(out, ": the part of ", file.path, " is already there, in ", there->file),
                 "--force writes it again"};
  }
  return Ok();
}

// Opens the directory that parts are added to, after checking that it can accept them.
Result<InsideDirectory> OpenExisting(const fs::path& target, const Manifest& existing,
                                     const std::vector<OutputFile>& files,
                                     const WriteOptions& options) {
  const std::string out = target.string();
  SHARD_CHECK(CheckPartsAreNew(out, existing, files, options.force));
  if (options.gguf) SHARD_CHECK(CheckSameAlignment(out, existing, files, options.gguf->alignment));
  SHARD_TRY(InsideDirectory directory, InsideDirectory::Open(target));
  SHARD_CHECK(CheckNoLinks(directory, existing, files));
  return directory;
}

// What is added to an existing distribution.
struct Addition {
  const Manifest& merged;
  std::vector<std::string> files;
  const std::set<std::string>& unused;
  std::string readme_before;  // as moepack wrote it
};

// Moves what was staged into the distribution in `directory`. The manifest follows once all files
// and their new directories are on disk, so that it never names a missing file. `unused` files are
// removed last, because until then the old manifest names them. A README.md that somebody edited
// stays, and so does a signature: returns warnings about them.
Result<std::vector<std::string>> AddToExisting(const std::string& out,
                                               const InsideDirectory& directory,
                                               StagingDirectory& staging,
                                               const Addition& addition) {
  SHARD_CHECK(staging.MoveInto(directory, addition.files));
  std::vector<std::string> warnings;
  const std::string readme = DistributionReadme(addition.merged);
  if (ReadmeIsEdited(directory, {addition.readme_before, readme}))
    warnings.push_back(StaleReadmeWarning(Cat(out, "/", kReadmeFile)));
  else
    SHARD_CHECK(directory.WriteText(kReadmeFile, readme));
  SHARD_CHECK(WriteManifestFile(directory, addition.merged));
  for (const std::string& file : addition.unused) SHARD_CHECK(directory.Remove(file));
  if (HasSignature(directory)) warnings.push_back(StaleSignatureWarning(out));
  SHARD_CHECK(staging.Discard());
  for (const std::string& warning : staging.warnings()) warnings.push_back(warning);
  return warnings;
}

// Computes the SHA-256 of every file of the model, and compares it with the published one. The
// files of `records` are the first of the sources; those of a refit follow.
Status HashSources(const std::vector<SourceFile>& sources, size_t jobs,
                   std::vector<SourceRecord>& records) {
  return ParallelFor(records.size(), jobs, [&](size_t i) -> Status {
    SHARD_TRY(const ByteSourcePtr source, OpenUnchanged(sources[i]));
    SHARD_TRY(records[i].sha256, Sha256Of(*source));
    SHARD_CHECK(CheckPublished(*source, records[i].sha256));
    records[i].whole = records[i].may_be_whole();
    return Ok();
  });
}

// The manifest of the existing distribution with the new parts added.
struct Merged {
  Manifest manifest;
  std::set<std::string> unused;  // files that were named before and no longer are
};

Result<Merged> Merge(const std::string& out, Manifest existing, Manifest fresh,
                     bool source_has_assets) {
  Merged merged{std::move(existing), {}};
  Manifest& manifest = merged.manifest;
  merged.unused = ListedFiles(manifest);
  ReplaceParts(std::move(fresh.bundles), manifest.bundles);
  // The assets are one part: a selection has all of them or none.
  if (!fresh.assets.empty()) manifest.assets = std::move(fresh.assets);
  SHARD_CHECK(MergeSourceRecords(out, fresh.model.source, manifest.model.source));
  if (auto command = MergeCommands(manifest.command, fresh.command)) {
    manifest.command = *std::move(command);
  }
  manifest.created = std::max(manifest.created, fresh.created);
  SetComplete(source_has_assets, manifest);
  // What the old manifest named and the new one does not is left of a part that was written again.
  for (const std::string& file : ListedFiles(manifest)) merged.unused.erase(file);
  return merged;
}

std::string StagingIdentity(const Draft& draft) {
  std::string identity = PackIdentity(draft.sources, draft.files.files);
  for (const Asset& asset : draft.files.assets) identity += Cat(asset.name, " ", asset.size, "\n");
  return Sha256Hex(identity);
}

void TellUser(const WritePlan& files, const WriteOptions& options) {
  if (options.notes && !files.notes.empty()) options.notes(files.notes);
  if (options.warnings && !files.warnings.empty()) options.warnings(files.warnings);
}

// What Pack gave becomes records of the manifest, and the layouts of the files are freed.
void AddBundles(const PackResult& packed, Draft& draft) {
  const std::string format = draft.format();
  for (size_t i = 0; i < draft.files.files.size(); ++i) {
    draft.manifest->bundles.push_back(
        DescribeBundle(std::move(draft.files.files[i]), packed.files[i], format));
  }
  draft.files.files = {};
  ReturnFreedMemory();
}

// Packs all files of the draft and completes its manifest; returns what was packed.
Result<PackResult> Stage(const WriteOptions& options, StagingDirectory& staging, Draft& draft) {
  SHARD_CHECK(staging.Begin(StagingIdentity(draft)));
  SHARD_TRY(PackResult packed, Pack(draft.sources, draft.files.files, staging, options.pack));
  AddBundles(packed, draft);
  if (options.hash_source || options.verify_source)
    SHARD_CHECK(HashSources(draft.sources, options.pack.jobs, draft.manifest->model.source));
  SHARD_TRY(draft.manifest->assets,
            CopyAssets({*draft.assets_from, draft.assets_folder}, staging, draft.files.assets));
  // Last, so that a side file that changed at any time during the run is noticed.
  if (draft.noted) SHARD_CHECK(draft.noted->CheckUnchanged());
  return packed;
}

// Publishes a distribution that was not there, or is replaced.
Status PublishNew(Manifest fresh, bool force, StagingDirectory& staging, WriteReport& report) {
  SHARD_CHECK(ReadBackManifest(fresh));
  SHARD_CHECK(staging.WriteText(kReadmeFile, DistributionReadme(fresh)));
  staging.Expect(kManifestFile);
  SHARD_CHECK(WriteManifestFile(staging.files(), fresh));
  SHARD_CHECK(staging.Publish(force));
  report.manifest = std::move(fresh);
  report.warnings = staging.warnings();
  return Ok();
}

}  // namespace

Result<WriteReport> WriteDraft(Draft draft, const std::string& out, const WriteOptions& options) {
  const fs::path target = TargetOf(out, options);
  // The existing output is checked under the lock: another run may be about to change it.
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Open(target, OwnOutput()));
  SHARD_TRY(std::optional<Manifest> existing, FindExisting(out, *draft.manifest, options));
  std::optional<InsideDirectory> directory;
  if (existing) {
    SHARD_TRY(directory, OpenExisting(target, *existing, draft.files.files, options));
  }
  if (draft.check) SHARD_CHECK(draft.check());
  TellUser(draft.files, options);
  WriteReport report;
  SHARD_TRY(report.pack, Stage(options, staging, draft));
  Manifest fresh = *std::move(draft.manifest);
  if (!existing) {
    if (draft.source_has_assets) SetComplete(*draft.source_has_assets, fresh);
    SHARD_CHECK(PublishNew(std::move(fresh), options.force, staging, report));
    return report;
  }
  const std::set<std::string> staged = ListedFiles(fresh);
  std::string readme = DistributionReadme(*existing);
  SHARD_TRY(Merged merged, Merge(out, *std::move(existing), std::move(fresh),
                                 draft.source_has_assets.value_or(false)));
  SHARD_CHECK(ReadBackManifest(merged.manifest));
  SHARD_TRY(
      report.warnings,
      AddToExisting(
          out, *directory, staging,
          {merged.manifest, {staged.begin(), staged.end()}, merged.unused, std::move(readme)}));
  report.manifest = std::move(merged.manifest);
  return report;
}

Result<WriteReport> WriteDistribution(MoeModel model, const Plan& plan, const std::string& out,
                                      const WriteOptions& options) {
  SHARD_TRY(Draft draft, DraftDistribution(std::move(model), plan, out, options));
  return WriteDraft(std::move(draft), out, options);
}

}  // namespace moepack::manifest
