#include "manifest/write/bundle.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
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
#include "libshard/pack/refit_tensors.h"
#include "manifest/document/describe_model.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/parts.h"
#include "manifest/document/read_back.h"
#include "manifest/write/draft.h"
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
    return std::optional(std::move(existing));
  }
  return Error{
      Code::kInvalidArgument,
      Cat(out, ": versions of the distribution there: expected model ", b.model, ", shard ",
          b.shard, ", replica ", OrNone(b.replica), ", refit ", OrNone(b.refit), ", found ",
          a.model, ", ", a.shard, ", ", OrNone(a.replica), ", ", OrNone(a.refit)),
      "parts can only be added to a distribution of the same model and plan"};
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
  const std::vector<std::string>& files;
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

// Checked before anything is written, so that nobody waits for an answer that cannot be given.
Status CheckDigestsArePublished(const std::vector<SourceFile>& sources) {
  for (const SourceFile& source : sources) {
    if (source.origin && !source.origin->sha256.empty()) continue;
    return Error{Code::kUnsupported,
                 Cat(source.path.string(), ": expected a published SHA-256, found none"),
                 "the Hub publishes one for every large file; --hash-source records the digest "
                 "without comparing it"};
  }
  return Ok();
}

// Computes the SHA-256 of every source file, and compares it with the published one.
Status HashSources(const std::vector<SourceFile>& sources, size_t jobs,
                   std::vector<SourceRecord>& records) {
  return ParallelFor(sources.size(), jobs, [&](size_t i) -> Status {
    SHARD_TRY(const ByteSourcePtr source, OpenUnchanged(sources[i]));
    SHARD_TRY(records[i].sha256, Sha256Of(*source));
    SHARD_CHECK(CheckPublished(*source, records[i].sha256));
    records[i].whole = records[i].may_be_whole();
    return Ok();
  });
}

// Records whether parts are absent, given what the source has.
Status NoteAbsentParts(const SourceTree& source, Manifest& manifest) {
  SHARD_TRY(const std::vector<Asset> assets, ListAssets(source));
  SetComplete(!assets.empty(), manifest);
  return Ok();
}

// The manifest of the existing distribution with the new parts added.
struct Merged {
  Manifest manifest;
  std::set<std::string> unused;  // files that were named before and no longer are
};

Result<Merged> Merge(const std::string& out, const MoeModel& model, Manifest existing,
                     Manifest fresh) {
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
  SHARD_CHECK(NoteAbsentParts(*model.checkpoint().tree(), manifest));
  // What the old manifest named and the new one does not is left of a part that was written again.
  for (const std::string& file : ListedFiles(manifest)) merged.unused.erase(file);
  return merged;
}

// Otherwise freed tables of a hundred thousand tensors stay with the process, in addition to those
// that follow.
void ReturnFreedMemory() { malloc_trim(0); }

void FreeTensors(MoeModel& model) {
  model.ForgetTensors();
  ReturnFreedMemory();
}

// What is packed is read from the model's files and those of a refit.
std::vector<SourceFile> SourcesOf(const MoeModel& model, const WriteOptions& options) {
  std::vector<SourceFile> sources = model.checkpoint().files();
  if (const RefitTensors* refit = options.slice.refit)
    sources.insert(sources.end(), refit->files().begin(), refit->files().end());
  return sources;
}

std::string StagingIdentity(const std::vector<SourceFile>& sources, const WritePlan& files) {
  std::string identity = PackIdentity(sources, files.files);
  for (const Asset& asset : files.assets) identity += Cat(asset.name, " ", asset.size, "\n");
  return Sha256Hex(identity);
}

// The manifest as it is before any file is written.
Result<Manifest> DescribeRun(const MoeModel& model, const WritePlan& files,
                             const WriteOptions& options) {
  Manifest fresh = DescribeModel(model, files.plan, options.model_id, options.revision);
  if (const RefitTensors* refit = options.slice.refit) {
    fresh.refit = std::make_shared<const RefitRecord>(refit->record());
    fresh.versions.refit = RefitVersion(*fresh.refit);
  }
  SHARD_TRY(fresh.model.license, LicenseOf(model));
  fresh.command = options.command;
  fresh.recipe = files.recipe;
  SHARD_TRY(fresh.created, SourceDateEpoch());
  return fresh;
}

void TellUser(const WritePlan& files, const WriteOptions& options) {
  if (options.notes && !files.notes.empty()) options.notes(files.notes);
  if (options.warnings && !files.warnings.empty()) options.warnings(files.warnings);
}

}  // namespace

Status CheckTarget(const MoeModel& model, const std::string& out) {
  const SourceTree& tree = *model.checkpoint().tree();
  const std::optional<fs::path> directory = tree.LocalPath("");
  if (!directory) return Ok();
  std::vector<fs::path> inputs;
  for (const SourceFile& file : model.checkpoint().files()) {
    inputs.push_back(*tree.LocalPath(file.name));
  }
  return CheckOutputApart(out, *directory, inputs);
}

Result<Draft> DraftDistribution(MoeModel model, const Plan& plan, const std::string& out,
                                const WriteOptions& options) {
  SHARD_CHECK(CheckTarget(model, out));
  Draft draft;
  draft.noted = options.side_files.value_or(
      SideFiles::Note(model.checkpoint().tree(), model.config_path().string()));
  SHARD_TRY(draft.files, PlanDistribution(model, plan, options));
  SHARD_TRY(draft.manifest, DescribeRun(model, draft.files, options));
  draft.sources = SourcesOf(model, options);
  draft.assets_from = model.checkpoint().tree();
  SHARD_TRY(const std::vector<Asset> assets, ListAssets(*draft.assets_from));
  draft.source_has_assets = !assets.empty();
  if (!options.gguf) FreeTensors(model);
  SHARD_CHECK(
      ReadBackPlanned(*draft.manifest, draft.files.files, options.gguf ? "gguf" : "safetensors"));
  return draft;
}

Result<WriteReport> WriteDistribution(MoeModel model, const Plan& plan, const std::string& out,
                                      const WriteOptions& options) {
  const std::vector<SourceFile>& sources = model.checkpoint().files();
  SHARD_CHECK(CheckTarget(model, out));
  if (options.verify_source) SHARD_CHECK(CheckDigestsArePublished(sources));
  const SideFiles noted = options.side_files.value_or(
      SideFiles::Note(model.checkpoint().tree(), model.config_path().string()));
  SHARD_TRY(WritePlan files, PlanDistribution(model, plan, options));
  WriteReport report;
  SHARD_TRY(Manifest fresh, DescribeRun(model, files, options));
  if (!options.gguf) FreeTensors(model);  // copying no longer needs them
  const std::string format = options.gguf ? "gguf" : "safetensors";
  SHARD_CHECK(ReadBackPlanned(fresh, files.files, format));
  const fs::path target = TargetOf(out, options);
  // The existing output is checked under the lock: another run may be about to change it.
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Open(target, OwnOutput()));
  SHARD_TRY(std::optional<Manifest> existing, FindExisting(out, fresh, options));
  std::optional<InsideDirectory> directory;
  if (existing) {
    SHARD_TRY(directory, OpenExisting(target, *existing, files.files, options));
  }
  TellUser(files, options);
  const std::vector<SourceFile> packed = SourcesOf(model, options);
  SHARD_CHECK(staging.Begin(StagingIdentity(packed, files)));
  SHARD_TRY(report.pack, Pack(packed, files.files, staging, options.pack));
  std::vector<std::string> written;
  for (size_t i = 0; i < files.files.size(); ++i) {
    written.push_back(files.files[i].path);
    fresh.bundles.push_back(
        DescribeBundle(std::move(files.files[i]), report.pack.files[i], format));
  }
  ReturnFreedMemory();
  if (options.hash_source || options.verify_source) {
    SHARD_CHECK(HashSources(sources, options.pack.jobs, fresh.model.source));
  }
  SHARD_TRY(fresh.assets, CopyAssets({*model.checkpoint().tree(), ""}, staging, files.assets));
  for (const AssetRecord& asset : fresh.assets) written.push_back(asset.file);
  // Last, so that a side file that changed at any time during the run is noticed.
  SHARD_CHECK(noted.CheckUnchanged());

  if (existing) {
    std::string readme = DistributionReadme(*existing);
    SHARD_TRY(Merged merged, Merge(out, model, *std::move(existing), std::move(fresh)));
    SHARD_CHECK(ReadBackManifest(merged.manifest));
    SHARD_TRY(report.warnings,
              AddToExisting(out, *directory, staging,
                            {merged.manifest, written, merged.unused, std::move(readme)}));
    report.manifest = std::move(merged.manifest);
    return report;
  }
  SHARD_CHECK(NoteAbsentParts(*model.checkpoint().tree(), fresh));
  SHARD_CHECK(ReadBackManifest(fresh));
  SHARD_CHECK(staging.WriteText(kReadmeFile, DistributionReadme(fresh)));
  staging.Expect(kManifestFile);
  SHARD_CHECK(WriteManifestFile(staging.files(), fresh));
  SHARD_CHECK(staging.Publish(options.force));
  report.manifest = std::move(fresh);
  report.warnings = staging.warnings();
  return report;
}

}  // namespace moepack::manifest
