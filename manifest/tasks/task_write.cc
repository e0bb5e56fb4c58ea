#include "manifest/tasks/task_write.h"

#include <algorithm>
#include <set>

#include "libshard/base/digest.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/text.h"
#include "libshard/tasks/fragments.h"
#include "manifest/document/describe_model.h"
#include "manifest/document/manifest_json.h"
#include "manifest/document/manifest_write.h"
#include "manifest/document/parts.h"
#include "manifest/tasks/task_record.h"
#include "manifest/write/assets.h"

namespace moepack::manifest {
namespace {

constexpr size_t kSha256Digits = 64;

// What determines the bytes of the output, whatever machine the task runs on: the state of local
// files (such as their inodes) is not part of it, but their headers are.
Result<std::string> WorkOf(const Draft& draft, const TaskOptions& options) {
  std::vector<SourceFile> sources = draft.sources;
  for (SourceFile& source : sources) source.identity.clear();
  std::string work = PackIdentity(sources, draft.files.files) + draft.source_version;
  for (const Asset& asset : draft.files.assets) {
    SHARD_TRY(const std::string text,
              draft.assets_from->ReadText(draft.assets_folder + asset.name, kMaxAssetBytes));
    work += Cat(asset.name, " ", Sha256Hex(text), "\n");
  }
  if (draft.manifest) work += ManifestDigest(*draft.manifest);
  return Sha256Hex(work += Cat(options.pack.cell_bytes));
}

// The state of the sources is part of what a killed run can be resumed with.
std::string StagingIdentityOf(const Draft& draft, const TaskOptions& options,
                              const std::string& work) {
  return Sha256Hex(Cat(work, PackIdentity(draft.sources, draft.files.files), options.number.index,
                       " ", options.number.count));
}

// Whether running the task again mends what is there.
bool IsDamage(Code code) {
  return code == Code::kCorrupt || code == Code::kMismatch || code == Code::kUnsupported ||
         code == Code::kNotFound;
}

Result<TaskRecord> ReadRecord(const InsideDirectory& directory) {
  SHARD_TRY(const std::string text, directory.ReadText(kTaskFile, kMaxTaskRecord));
  return ReadTaskRecord((directory.path() / kTaskFile).string(), text);
}

// The same with a hint that mends damage.
Result<TaskRecord> RecordIn(const InsideDirectory& directory) {
  auto record = ReadRecord(directory);
  if (record || !IsDamage(record.error().code)) return record;
  Error error = std::move(record).error();
  error.hint = kCorruptTaskHint;
  return error;
}

// The names of what the task writes.
std::set<std::string> NamesOf(const Draft& draft, const std::vector<Piece>& pieces,
                              const TaskNumber& number) {
  std::set<std::string> names = {kTaskFile};
  for (const Piece& piece : pieces) names.insert(piece.file.path);
  if (number.index > 0 || !draft.manifest) return names;
  names.insert(kPlannedFile);
  for (const Asset& asset : draft.files.assets) names.insert(Cat(kAssetDirectory, asset.name));
  return names;
}

// Adds what a task of other work has written, as its record says.
Status AddRecorded(const InsideDirectory& directory, std::set<std::string>& names) {
  const auto record = ReadRecord(directory);
  if (!record) return IsDamage(record.error().code) ? Ok() : Status(record.error());
  for (const PieceRecord& piece : record->pieces) names.insert(piece.file);
  if (record->planned_sha256.empty()) return Ok();
  names.insert(kPlannedFile);
  const std::string where = (directory.path() / kPlannedFile).string();
  const auto text = directory.ReadText(kPlannedFile, kMaxManifestBytes);
  if (!text) return IsDamage(text.error().code) ? Ok() : Status(text.error());
  const auto planned = ParseManifest(where, *text);
  if (!planned) return Ok();
  for (const AssetRecord& asset : planned->assets) names.insert(asset.file);
  return Ok();
}

// What a task replaces: a directory that holds nothing but what it writes itself, and what a record
// there lists.
moepack::OwnOutput OwnTask(std::set<std::string> own) {
  const auto check = [own = std::move(own)](const InsideDirectory& directory) -> Status {
    SHARD_CHECK(CheckHoldsNoMount(directory));
    std::set<std::string> names = own;
    SHARD_CHECK(AddRecorded(directory, names));
    SHARD_TRY(const std::vector<std::string> files, ListOutputFiles(directory));
    for (const std::string& file : files) {
      if (names.contains(file)) continue;
      return Error{Code::kInvalidArgument,
                   Cat(directory.path().string(), " holds ", Quoted(file), ", which no task wrote"),
                   "move it away: --force replaces only what a task wrote"};
    }
    return Ok();
  };
  return {check, {kTaskFile}};
}

// Looks before the work is done, not only when it is published.
Status CheckReplaceableTask(const fs::path& target, const moepack::OwnOutput& own) {
  SHARD_TRY(const bool free, IsFreeOutput(target));
  if (free) return Ok();
  SHARD_TRY(const InsideDirectory directory, InsideDirectory::Open(target));
  return own.check(directory);
}

// Whether the task at `target` is done; kInvalidArgument if another one is.
Result<bool> IsDone(const fs::path& target, const TaskNumber& number, const std::string& work) {
  SHARD_TRY(const bool free, IsFreeOutput(target));
  if (free) return false;
  SHARD_TRY(const InsideDirectory directory, InsideDirectory::Open(target));
  SHARD_TRY(const TaskRecord record, RecordIn(directory));
  if (record.work == work && record.number == number) return true;
  return Error{Code::kInvalidArgument,
               Cat(target.string(), ": expected a task of this work (", work.substr(0, 16),
                   "), found one of another (", record.work.substr(0, 16), ")"),
               "another source, plan, recipe or moepack made it: --force writes it again, for this "
               "work"};
}

// The manifest of the whole output, with zeros where digests will be.
Manifest Planned(const Draft& draft) {
  Manifest planned = *draft.manifest;
  for (const OutputFile& file : draft.files.files) {
    const FileDigests none{std::string(kSha256Digits, '0'), Xxh3List(file.tensors.size())};
    planned.bundles.push_back(DescribeBundle(file, none, draft.format()));
  }
  return planned;
}

std::vector<PlannedOutput> PlanOutputs(const std::vector<OutputFile>& files) {
  std::vector<PlannedOutput> outputs;
  for (const OutputFile& file : files) {
    PlannedOutput output{file.path, file.size, file.prefix.size(), 0};
    for (const OutputTensor& tensor : file.tensors) output.payload += tensor.entry.bytes;
    outputs.push_back(std::move(output));
  }
  return outputs;
}

// What only the first task writes: what is known about the whole output.
Status WriteWhole(const Draft& draft, Manifest planned, StagingDirectory& staging,
                  TaskRecord& record) {
  SHARD_TRY(planned.assets,
            CopyAssets({*draft.assets_from, draft.assets_folder}, staging, draft.files.assets));
  if (draft.source_has_assets) SetComplete(*draft.source_has_assets, planned);
  staging.Expect(kPlannedFile);
  record.planned_sha256 = ManifestDigest(planned);
  return staging.files().WritePieces(kPlannedFile, [&](const InsideDirectory::TextSink& sink) {
    return StreamManifest(planned, sink);
  });
}

TaskRecord StartRecord(const Draft& draft, const TaskOptions& options, const std::string& work) {
  TaskRecord record;
  record.number = options.number;
  record.work = work;
  record.distribution = draft.manifest.has_value();
  record.stem = options.stem;
  if (options.number.index > 0) return record;
  record.outputs = PlanOutputs(draft.files.files);
  record.cell_bytes = options.pack.cell_bytes;
  return record;
}

// Packs the pieces and lists them in the record.
Result<PackResult> PackPieces(const Draft& draft, std::vector<Piece> pieces,
                              const TaskOptions& options, StagingDirectory& staging,
                              TaskRecord& record) {
  std::vector<OutputFile> files;
  for (Piece& piece : pieces) files.push_back(std::move(piece.file));
  PackOptions pack = options.pack;
  pack.cell_bytes = 0;  // those of the outputs are made when they are joined
  SHARD_TRY(PackResult packed, Pack(draft.sources, files, staging, pack));
  for (size_t i = 0; i < files.size(); ++i) {
    record.pieces.push_back({pieces[i].output, files[i].path, files[i].size, packed.files[i].sha256,
                             std::move(pieces[i].runs)});
  }
  return packed;
}

// Writes all of the task and publishes it.
Status WriteAll(Draft draft, std::vector<Piece> pieces, const TaskOptions& options,
                const std::string& work, StagingDirectory& staging, TaskReport& report) {
  SHARD_CHECK(staging.Begin(StagingIdentityOf(draft, options, work)));
  TaskRecord record = StartRecord(draft, options, work);
  std::optional<Manifest> planned;
  if (options.number.index == 0 && draft.manifest) planned = Planned(draft);
  draft.files.files = {};  // as large as all names of tensors
  SHARD_TRY(report.pack, PackPieces(draft, std::move(pieces), options, staging, record));
  if (planned) SHARD_CHECK(WriteWhole(draft, *std::move(planned), staging, record));
  if (draft.noted) SHARD_CHECK(draft.noted->CheckUnchanged());
  SHARD_CHECK(staging.WriteText(kTaskFile, WriteTaskRecord(record)));
  return staging.Publish(options.force);
}

}  // namespace

Result<TaskReport> WriteTask(Draft draft, const std::string& out, const TaskOptions& options) {
  const TaskNumber& number = options.number;
  const WorkDivision division(draft.files.files, number.count);
  const fs::path target = fs::path(TasksDirectory(out)) / TaskName(number);
  TaskReport report;
  report.directory = target.string();
  report.number = number;
  report.load = division.loads()[number.index];
  report.imbalance = Imbalance(division.loads(), &TaskLoad::work);
  std::vector<Piece> pieces =
      CutPieces(draft.files.files, division.Of(number.index), number.index == 0);
  for (const Piece& piece : pieces) report.bytes += piece.file.size;
  if (options.dry_run) return report;

  SHARD_TRY(const std::string work, WorkOf(draft, options));
  const moepack::OwnOutput own = OwnTask(NamesOf(draft, pieces, number));
  SHARD_TRY(StagingDirectory staging, StagingDirectory::Open(target, own));
  if (options.force) {
    SHARD_CHECK(CheckReplaceableTask(target, own));
  } else {
    SHARD_TRY(report.was_there, IsDone(target, number, work));
    if (report.was_there) return report;
  }
  if (draft.check && number.index == 0) SHARD_CHECK(draft.check());
  Status written = WriteAll(std::move(draft), std::move(pieces), options, work, staging, report);
  if (!written) {
    // Only where there are no locks may somebody else have done the same meanwhile.
    const bool may_be_there = !options.force && !staging.renamed();
    const auto done = may_be_there ? IsDone(target, number, work) : Result<bool>(false);
    if (!done || !*done) return std::move(written).error();
    (void)staging.Discard().has_value();
    report.outrun = true;
  }
  report.warnings = staging.warnings();
  return report;
}

}  // namespace moepack::manifest
