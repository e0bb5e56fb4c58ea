#include "manifest/tasks/refit_join.h"

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "libshard/base/digest.h"
#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/local_tree.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/text.h"
#include "libshard/recipe/imatrix.h"
#include "libshard/refit/refit_store.h"
#include "manifest/document/file_names.h"
#include "manifest/tasks/find_shares.h"
#include "manifest/write/output_path.h"
#include "manifest/write/place_files.h"

namespace moepack::manifest {
namespace refit_join {
namespace {

namespace fs = moepack::fs;

constexpr const char* kFinishHint =
    "start its task again with the same command: it goes on where it stopped";

constexpr ShareKind kParts = {
    kRefitFile, kRefitPartSuffix, "parts of a refit",
    "stores of a refit, distributions and tasks are joined in steps of their own"};

// A store of a part, opened.
struct Part {
  std::string directory;
  RefitStore store;
  const RefitPart& groups() const { return *store.part(); }
};

// ---- Which parts there are

Result<bool> HasStore(const fs::path& directory) { return IsThere(directory / kRefitFile); }

// The distribution of a task, if it has written one.
Status AddDistribution(const std::string& store, RefitParts& found) {
  const std::string distribution =
      store.substr(0, store.size() - std::string_view(kRefitPartSuffix).size());
  SHARD_TRY(const bool written, IsThere(fs::path(distribution) / kManifestFile));
  if (written) found.distributions.push_back(distribution);
  return Ok();
}

// ---- What they are

Status CheckOfOneRefit(const Part& first, const Part& part) {
  RefitRecord wanted = first.store.record(), found = part.store.record();
  ForgetPart(wanted);
  ForgetPart(found);
  // What differs in instructions differs in little else, so it is named first.
  SHARD_CHECK(CheckPartsFit(part.directory, part.groups(), first.directory, first.groups()));
  const Status same = CheckSameRefit(part.directory, wanted, found);
  if (same) return same;
  Error error = same.error();
  error.hint = Cat("expected as in ", first.directory,
                   ": parts fit together only if they are of one refit, with the same options "
                   "and texts");
  return error;
}

Status CheckFinished(const Part& part) {
  SHARD_TRY(const bool finished, part.store.IsFinished());
  if (finished) return Ok();
  std::set<uint32_t> layers;
  for (const RefitOutcome& outcome : part.store.record().outcomes) layers.insert(outcome.layer);
  return Error{Code::kNotFound,
               Cat(Shown(part.directory), ": expected a part that is finished, found one with ",
                   Plural(layers.size(), "layer")),
               kFinishHint};
}

Status CheckAllGroups(const std::vector<Part>& parts) {
  ExpertIds all, there;
  for (uint32_t group = 0; group < parts[0].groups().twins.size(); ++group) all.push_back(group);
  for (const Part& part : parts) there = Union(there, part.groups().groups);
  const ExpertIds missing = Difference(all, there);
  if (missing.empty()) return Ok();
  return Error{Code::kNotFound,
               Cat(Shown(parts[0].directory), ": groups of all parts: expected ", FormatIds(all),
                   ", found ", FormatIds(there), ": ", FormatIds(missing),
                   missing.size() == 1 ? " is missing" : " are missing"),
               "run the tasks that are missing with the command of the others"};
}

Result<std::vector<Part>> OpenParts(const std::vector<std::string>& directories) {
  std::vector<Part> parts;
  for (const std::string& directory : directories) {
    SHARD_TRY(RefitStore store, RefitStore::Open(directory));
    if (!store.part())
      return Error{Code::kInvalidArgument,
                   Cat(Shown(directory), ": expected a part of a refit, found a whole one"),
                   "it needs no join"};
    parts.push_back({directory, std::move(store)});
    SHARD_CHECK(CheckOfOneRefit(parts[0], parts.back()));
    SHARD_CHECK(CheckFinished(parts.back()));
  }
  SHARD_CHECK(CheckAllGroups(parts));
  return parts;
}

Result<RefitRecord> MergeRecords(const std::vector<Part>& parts) {
  RefitRecord record = parts[0].store.record();
  ForgetPart(record);
  for (const Part& part : parts)
    SHARD_CHECK(MergeOutcomes(Shown(part.directory), part.store.record(), record));
  return record;
}

// The part that a group is taken from: the first that has it.
const Part& PartOf(const std::vector<Part>& parts, uint32_t group) {
  return *std::find_if(parts.begin(), parts.end(),
                       [&](const Part& part) { return Contains(part.groups().groups, group); });
}

// ---- The joined store

Result<std::vector<JoinedFile>> FilesOf(const std::vector<Part>& parts, const RefitRecord& record) {
  std::vector<JoinedFile> files;
  for (const RefitOutcome& outcome : record.outcomes) {
    if (!outcome.accepted) continue;
    const Part& part = PartOf(parts, outcome.group);
    const auto tree = std::make_shared<const LocalTree>(part.directory);
    const std::string name = RefittedFileName(outcome.layer, outcome.group);
    SHARD_TRY(const ByteSourcePtr file, tree->Open(name));
    files.push_back({part.directory, tree, name, file->size(), outcome.sha256});
  }
  return files;
}

Status AddImportance(const std::vector<Part>& parts, uint32_t group, Imatrix& sum) {
  const fs::path file = fs::path(PartOf(parts, group).directory) / RefitGroupImatrix(group);
  SHARD_TRY(Imatrix imatrix, ReadImatrix(file.string()));
  if (!sum.entries.empty()) return AddImatrixEntries(file.string(), imatrix.entries, sum.entries);
  sum = std::move(imatrix);
  return Ok();
}

// In the order in which one run adds the groups up: each with its twins behind it.
Result<Imatrix> JoinImportances(const std::vector<Part>& parts) {
  const std::vector<uint32_t>& twins = parts[0].groups().twins;
  Imatrix sum;
  for (uint32_t first = 0; first < twins.size(); ++first) {
    for (uint32_t group = first; group < twins.size() && twins[first] == first; ++group)
      if (twins[group] == first) SHARD_CHECK(AddImportance(parts, group, sum));
  }
  return sum;
}

// A refit store, and nothing else, may be replaced.
moepack::OwnOutput OwnStore() {
  const auto check = [](const InsideDirectory& directory) -> Status {
    SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, ListOutput(directory));
    for (const InsideDirectory::Entry& entry : entries) {
      const std::string& name = entry.name;
      if (name == kRefitFile || name == kRefitImatrix ||
          (name.starts_with("layer-") && name.ends_with(".safetensors")))
        continue;
      return Error{
          Code::kInvalidArgument,
          Cat(Shown(directory.path().string()), ": expected a refit store, found ", Quoted(name)),
          "move it away: --force replaces only what a refit wrote"};
    }
    return Ok();
  };
  return {check, {kRefitFile}};
}

Status WriteStore(const std::vector<Part>& parts, const std::vector<JoinedFile>& files,
                  const JoinOptions& options, RefitJoinReport& report) {
  const std::string text = WriteJson(RefitToJson(report.record));
  SHARD_TRY(StagingDirectory staging,
            StagingDirectory::Start(report.store, Sha256Hex(text), OwnStore()));
  SHARD_TRY(const std::vector<LinkKind> links,
            PlaceFiles(files, options.link, options.pack, staging));
  for (size_t i = 0; i < links.size(); ++i) report.files[i].link = LinkName(links[i]);
  SHARD_CHECK(CheckPlaced(files, options.pack, staging.path()));
  SHARD_TRY(const Imatrix imatrix, JoinImportances(parts));
  staging.Expect(kRefitImatrix);
  const fs::path matrix = staging.path() / kRefitImatrix;
  SHARD_CHECK(WriteImatrix(matrix.string(), imatrix));
  SHARD_CHECK(staging.WriteText(kRefitFile, text));
  report.files.push_back({kRefitImatrix, fs::file_size(matrix)});
  report.files.push_back({kRefitFile, text.size()});
  SHARD_CHECK(staging.Publish(options.force));
  report.warnings = staging.warnings();
  return Ok();
}

// Whether a join that was killed behind it has written the store.
Result<bool> IsJoined(const RefitJoinReport& report) {
  SHARD_TRY(const bool there, HasStore(report.store));
  if (!there) return false;
  SHARD_TRY(const RefitStore store, RefitStore::Open(report.store));
  SHARD_TRY(const bool finished, store.IsFinished());
  return finished && store.record() == report.record;
}

Status JoinStores(const std::vector<Part>& parts, const JoinOptions& options,
                  RefitJoinReport& report) {
  SHARD_TRY(report.record, MergeRecords(parts));
  SHARD_TRY(const std::vector<JoinedFile> files, FilesOf(parts, report.record));
  for (const JoinedFile& file : files) report.files.push_back({file.file, file.size, file.from});
  SHARD_TRY(report.was_there, IsJoined(report));
  if (report.was_there) return Ok();
  if (!options.dry_run) return WriteStore(parts, files, options, report);
  // The importance matrix is not made before it is written.
  report.files.push_back({kRefitFile, WriteJson(RefitToJson(report.record)).size()});
  return Ok();
}

}  // namespace
}  // namespace refit_join

Result<RefitParts> FindRefitParts(const std::vector<std::string>& inputs) {
  using namespace refit_join;
  SHARD_TRY(const std::vector<FoundShare> shares, FindShares(inputs, kParts));
  RefitParts found;
  for (const FoundShare& share : shares) {
    found.stores.push_back(share.directory);
    if (!share.named) SHARD_CHECK(AddDistribution(share.directory, found));
  }
  if (found.distributions.empty() || found.distributions.size() == found.stores.size())
    return found;
  return Error{Code::kNotFound,
               Cat(Shown(inputs[0]), ": expected a distribution of each of ", found.stores.size(),
                   " tasks, found ", found.distributions.size()),
               kFinishHint};
}

uint64_t RefitJoinReport::total_bytes() const {
  uint64_t total = 0;
  for (const JoinReport::File& file : files) total += file.bytes;
  return total;
}

Result<RefitJoinReport> JoinRefits(const RefitParts& parts, const std::string& out,
                                   const JoinOptions& options) {
  using namespace refit_join;
  SHARD_TRY(const std::vector<Part> opened, OpenParts(parts.stores));
  for (const std::vector<std::string>* inputs : {&parts.stores, &parts.distributions}) {
    for (const std::string& input : *inputs) SHARD_CHECK(CheckOutsideDistribution(out, input));
  }
  RefitJoinReport report;
  report.parts = static_cast<uint32_t>(opened.size());
  report.store = out;
  JoinOptions joining = options;
  joining.alone = true;
  if (!parts.distributions.empty()) {
    report.store = out.substr(0, out.find_last_not_of('/') + 1) + kRefitPartSuffix;
    SHARD_CHECK(CheckReplaceable(out, options.force || options.dry_run));
  }
  SHARD_CHECK(JoinStores(opened, options, report));
  if (parts.distributions.empty()) return report;
  SHARD_TRY(report.distribution, JoinDistributions(parts.distributions, out, joining));
  return report;
}

}  // namespace moepack::manifest
