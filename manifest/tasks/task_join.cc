#include "manifest/tasks/task_join.h"

#include <algorithm>

#include "libshard/base/digest.h"
#include "libshard/base/files/cell_digest.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/text.h"
#include "libshard/format/gguf_set.h"
#include "libshard/pack/check_outputs.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/parts.h"
#include "manifest/document/read_back.h"
#include "manifest/tasks/read_tasks.h"
#include "manifest/write/bundle.h"
#include "manifest/write/output_path.h"
#include "manifest/write/stated_file.h"

namespace moepack::manifest {
namespace {

// Everything that is known before a byte is written.
struct Joining {
  std::vector<ReadTask> tasks;
  std::optional<Manifest> manifest;
  StatedFile planned;  // what the manifest was read from
  TaskOutputs outputs;
};

// The hint of a file whose digest is not the stated one.
Status OfATask(Status checked) {
  if (checked || checked.error().code != Code::kMismatch) return checked;
  Error error = std::move(checked).error();
  error.hint = Cat("the file is corrupt: ", kCorruptTaskHint);
  return error;
}

Status CheckCells(const Joining& joining) {
  const ReadTask& first = joining.tasks[0];
  const uint64_t bytes = first.record.cell_bytes;
  if (bytes == 0) return Ok();
  uint64_t cells = 0;
  for (const OutputFile& file : joining.outputs.files) {
    cells += (file.size + bytes - 1) / bytes;
    if (cells <= kMostCells) continue;
    return Error{
        Code::kCorrupt,
        Cat(first.tree->NameOf(kTaskFile), ": cell_bytes: expected a size that makes at most ",
            kMostCells, " cells of all files, found ", bytes),
        "something changed the file: this task has to run again, with --force"};
  }
  return Ok();
}

Result<Joining> Open(const std::vector<std::string>& directories) {
  Joining joining;
  SHARD_TRY(joining.tasks, ReadTasks(directories));
  const ReadTask& first = joining.tasks[0];
  if (first.record.distribution) {
    SHARD_TRY(const std::string text, first.tree->ReadText(kPlannedFile, kMaxManifestBytes));
    joining.planned = {first.tree, kPlannedFile, text.size(), first.record.planned_sha256};
    SHARD_CHECK(OfATask(CheckDigest(joining.planned, Sha256Hex(text))));
    SHARD_TRY(joining.manifest, ParseManifest(first.tree->NameOf(kPlannedFile), text));
  }
  const Manifest* planned = joining.manifest ? &*joining.manifest : nullptr;
  SHARD_TRY(joining.outputs, OutputsOf(joining.tasks, planned));
  SHARD_CHECK(CheckCells(joining));
  return joining;
}

// Checks every file that a task wrote, in each of its copies, before any is used.
Status CheckFiles(const Joining& joining, const PackOptions& options) {
  std::vector<StatedFile> files;
  const auto add = [&](const SourceTreePtr& tree, const ReadTask& task) {
    for (const PieceRecord& piece : task.record.pieces)
      files.push_back({tree, piece.file, piece.size, piece.sha256});
    if (!joining.manifest || &task != &joining.tasks[0]) return;
    files.push_back({tree, joining.planned.file, joining.planned.size, joining.planned.sha256});
    for (const AssetRecord& asset : joining.manifest->assets)
      files.push_back({tree, asset.file, asset.size, asset.sha256});
  };
  for (const ReadTask& task : joining.tasks) {
    add(task.tree, task);
    for (const SourceTreePtr& copy : task.copies) add(copy, task);
  }
  return OfATask(CheckFileDigests(files, options));
}

PackOptions PackingOptions(const Joining& joining, const JoinOptions& options) {
  PackOptions pack = options.pack;
  pack.cell_bytes = joining.tasks[0].record.cell_bytes;
  return pack;
}

// Replaces the zeros with what packing found.
void FillDigests(const PackResult& packed, Manifest& manifest) {
  for (size_t i = 0; i < manifest.bundles.size(); ++i) {
    BundleRecord& bundle = manifest.bundles[i];
    bundle.sha256 = packed.files[i].sha256;
    bundle.cells = packed.files[i].cells;
    for (size_t t = 0; t < bundle.tensors.size(); ++t)
      bundle.tensors[t].xxh3 = std::string(packed.files[i].tensors[t]);
  }
}

std::vector<Asset> PlannedAssets(const Manifest& manifest) {
  std::vector<Asset> assets;
  for (const AssetRecord& asset : manifest.assets)
    assets.push_back({asset.file.substr(std::string_view(kAssetDirectory).size()), asset.size});
  return assets;
}

// Copies the assets, whose digests were checked.
Status CopyPlannedAssets(const ReadTask& first, const Manifest& manifest,
                         StagingDirectory& staging) {
  SHARD_TRY(const std::vector<AssetRecord> copied,
            CopyAssets({*first.tree, kAssetDirectory}, staging, PlannedAssets(manifest)));
  for (size_t i = 0; i < copied.size(); ++i) {
    const AssetRecord& asset = manifest.assets[i];
    const StatedFile stated{first.tree, asset.file, asset.size, asset.sha256};
    SHARD_CHECK(OfATask(CheckDigest(stated, copied[i].sha256)));
  }
  return Ok();
}

Status WriteJoined(Joining& joining, const std::string& out, const JoinOptions& options,
                   TaskJoinReport& report) {
  std::vector<OutputFile>& files = joining.outputs.files;
  const std::string identity =
      PackIdentity(joining.outputs.sources, files) + ManifestDigest(*joining.manifest);
  SHARD_TRY(StagingDirectory staging,
            StagingDirectory::Start(out, Sha256Hex(identity), OwnOutput()));
  SHARD_TRY(const PackResult packed,
            Pack(joining.outputs.sources, files, staging, PackingOptions(joining, options)));
  Manifest& manifest = *joining.manifest;
  FillDigests(packed, manifest);
  SHARD_CHECK(CopyPlannedAssets(joining.tasks[0], manifest, staging));
  SHARD_CHECK(ReadBackManifest(manifest));
  SHARD_CHECK(staging.WriteText(kReadmeFile, DistributionReadme(manifest)));
  staging.Expect(kManifestFile);
  SHARD_CHECK(WriteManifestFile(staging.files(), manifest));
  SHARD_CHECK(staging.Publish(options.force));
  report.warnings = staging.warnings();
  return Ok();
}

Status CheckGgufName(const std::string& out) {
  const std::string problem = GgufNameProblem(out);
  if (problem.empty()) return Ok();
  return Error{Code::kInvalidArgument, Cat("--output: ", problem),
               "these tasks write one GGUF and no distribution"};
}

// The names of the set begin with the output's name, whatever the tasks called it.
Status NameGgufFiles(const std::string& out, Joining& joining) {
  const TaskRecord& first = joining.tasks[0].record;
  std::vector<OutputFile>& files = joining.outputs.files;
  const auto count = static_cast<uint32_t>(files.size());
  for (uint32_t i = 0; i < count; ++i) {
    const std::string expected = GgufFileName(first.stem, i, count);
    if (files[i].path != expected) {
      return Error{Code::kCorrupt, Cat(joining.tasks[0].tree->NameOf(kTaskFile), ": output ", i,
                                       ": file: expected ", expected, ", found ", files[i].path)};
    }
    files[i].path = GgufFileName(fs::path(out).stem().string(), i, count);
  }
  return Ok();
}

Status WriteGguf(Joining& joining, const std::string& out, const JoinOptions& options,
                 TaskJoinReport& report) {
  std::vector<OutputFile>& files = joining.outputs.files;
  SHARD_TRY(StagingDirectory staging,
            StagingDirectory::Start(out, PackIdentity(joining.outputs.sources, files)));
  SHARD_CHECK(Pack(joining.outputs.sources, files, staging, PackingOptions(joining, options)));
  SHARD_CHECK(staging.PublishFiles(PathsOf(files), options.force));
  report.warnings = staging.warnings();
  return Ok();
}

Status CheckOut(const std::string& out, const Joining& joining, const JoinOptions& options) {
  for (const ReadTask& task : joining.tasks)
    SHARD_CHECK(CheckOutsideDistribution(out, task.directory));
  const bool force = options.force || options.dry_run;
  if (joining.manifest) {
    Status free = CheckReplaceable(out, force);
    if (free || force || AbsentWords(*joining.manifest).empty()) return free;
    SHARD_TRY(const bool distribution, IsThere(fs::path(out) / kManifestFile));
    if (!distribution) return free;
    Error error = std::move(free).error();
    error.hint =
        "these tasks make only some of the parts: join them in a new directory, and then that one "
        "with this; --force replaces everything that is there";
    return error;
  }
  const fs::path directory = fs::path(out).lexically_normal().parent_path();
  return CheckMayPublish(directory, joining.outputs.files, force);
}

void ListFiles(const Joining& joining, TaskJoinReport& report) {
  for (const OutputFile& file : joining.outputs.files)
    report.files.push_back({file.path, file.size});
  if (!joining.manifest) return;
  const Manifest& manifest = *joining.manifest;
  for (const AssetRecord& asset : manifest.assets) report.files.push_back({asset.file, asset.size});
  report.files.push_back({kReadmeFile, DistributionReadme(manifest).size()});
  report.files.push_back({kManifestFile, ManifestBytes(manifest)});
}

}  // namespace

uint64_t TaskJoinReport::total_bytes() const {
  uint64_t total = 0;
  for (const JoinReport::File& file : files) total += file.bytes;
  return total;
}

Result<TaskJoinReport> JoinTasks(const std::vector<std::string>& tasks, const std::string& out,
                                 const JoinOptions& options) {
  SHARD_TRY(Joining joining, Open(tasks));
  if (!joining.manifest) {
    SHARD_CHECK(CheckGgufName(out));
    SHARD_CHECK(NameGgufFiles(out, joining));
  }
  SHARD_CHECK(CheckOut(out, joining, options));
  TaskJoinReport report;
  report.tasks = joining.tasks[0].record.number.count;
  ListFiles(joining, report);
  if (joining.manifest) report.absent = AbsentWords(*joining.manifest);
  if (!options.dry_run) {
    SHARD_CHECK(CheckFiles(joining, options.pack));
    SHARD_CHECK(joining.manifest ? WriteJoined(joining, out, options, report)
                                 : WriteGguf(joining, out, options, report));
  }
  report.manifest = std::move(joining.manifest);
  return report;
}

}  // namespace moepack::manifest
