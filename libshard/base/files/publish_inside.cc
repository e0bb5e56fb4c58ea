#include "libshard/base/files/publish_inside.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/journal.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/files/staging.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using Kind = InsideDirectory::Kind;
using Entry = InsideDirectory::Entry;

constexpr std::string_view kRecordFormat = "moepack-publishing 1";
constexpr const char* kLostAndFound = "lost+found";

struct KnownFile {
  std::string name, identity;
};
struct PublishingRecord {
  std::vector<KnownFile> staged, marks, old;  // marks: those of the old output
};

Result<std::vector<KnownFile>> Identify(const InsideDirectory& directory,
                                        const std::vector<std::string>& names) {
  std::vector<KnownFile> files;
  for (const std::string& name : names) {
    SHARD_TRY(std::string identity, directory.IdentityOf(name));
    files.push_back({name, std::move(identity)});
  }
  return files;
}

// Names may hold anything but NUL.
std::string WriteRecord(const PublishingRecord& record) {
  std::string text(kRecordFormat);
  const auto add = [&](char kind, const KnownFile& file) {
    text += '\0';
    text += Cat(std::string(1, kind), file.identity);
    text += '\0';
    text += file.name;
  };
  for (const KnownFile& file : record.staged) add('+', file);
  for (const KnownFile& file : record.marks) add('!', file);
  for (const KnownFile& file : record.old) add('-', file);
  return text;
}

// No value for anything but a whole record.
std::optional<PublishingRecord> ParseRecord(std::string_view text) {
  const std::vector<std::string> parts = Split(text, '\0');
  if (parts[0] != kRecordFormat || parts.size() % 2 == 0) return std::nullopt;
  PublishingRecord record;
  for (size_t i = 1; i < parts.size(); i += 2) {
    const char kind = parts[i].empty() ? '\0' : parts[i][0];
    if (kind != '+' && kind != '!' && kind != '-') return std::nullopt;
    auto& files = kind == '+' ? record.staged : kind == '!' ? record.marks : record.old;
    files.push_back({parts[i + 1], parts[i].substr(1)});
  }
  return record;
}

// No value where there is none.
Result<std::optional<PublishingRecord>> ReadRecord(const InsideDirectory& root) {
  SHARD_TRY(const Kind kind, root.KindOf(kPublishingName));
  if (kind == Kind::kNothing) return std::optional<PublishingRecord>();
  SHARD_TRY(const std::string text, root.ReadText(kPublishingName, kMaxJournal));
  if (auto record = ParseRecord(text)) return std::optional(*std::move(record));
  return Error{Code::kInvalidArgument,
               Cat((root.path() / kPublishingName).string(),
                   ": expected the record of an interrupted run, found something else"),
               "move it away, or choose another output"};
}

Result<bool> IsTheFile(const InsideDirectory& directory, const KnownFile& file) {
  SHARD_TRY(const std::string identity, directory.IdentityOf(file.name));
  return !identity.empty() && identity == file.identity;
}

Result<bool> IsAnyThere(const InsideDirectory& directory, const std::vector<KnownFile>& files) {
  for (const KnownFile& file : files) {
    SHARD_TRY(const bool there, IsTheFile(directory, file));
    if (there) return true;
  }
  return false;
}

// What a killed PublishInside left in the output.
enum class Left : uint8_t { kOld, kPieces, kNew };

Result<Left> LookAtLeft(const InsideDirectory& staged, const InsideDirectory& target,
                        const PublishingRecord& record) {
  SHARD_TRY(const bool waits, IsAnyThere(staged, record.staged));
  if (!waits) return Left::kNew;
  // They are removed before anything else.
  for (const KnownFile& mark : record.marks) {
    SHARD_TRY(const bool there, IsTheFile(target, mark));
    if (!there) return Left::kPieces;
  }
  return record.marks.empty() ? Left::kPieces : Left::kOld;
}

// Removes the directories below that hold nothing, deepest first.
Status RemoveEmptyBelow(const InsideDirectory& directory, const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (entry.kind != Kind::kDirectory) continue;
    SHARD_TRY(const InsideDirectory child, directory.OpenDirectory(entry.name));
    SHARD_TRY(const std::vector<Entry> below, child.List());
    SHARD_CHECK(RemoveEmptyBelow(child, below));
    SHARD_TRY(const std::vector<Entry> left, child.List());
    if (left.empty()) SHARD_CHECK(directory.RemoveEmptyDirectory(entry.name));
  }
  return Ok();
}

Status RemoveEmptyDirectories(const InsideDirectory& output) {
  SHARD_TRY(const std::vector<Entry> entries, ListOutput(output));
  SHARD_CHECK(RemoveEmptyBelow(output, entries));
  return output.Flush();
}

Status FlushOutput(const InsideDirectory& output) {
  SHARD_TRY(const std::vector<Entry> entries, ListOutput(output));
  for (const Entry& entry : entries) {
    if (entry.kind != Kind::kDirectory) continue;
    SHARD_TRY(const InsideDirectory child, output.OpenDirectory(entry.name));
    SHARD_CHECK(child.FlushAll());
  }
  return output.Flush();
}

Status CheckNoMountAmong(const InsideDirectory& directory, const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    const fs::path path = directory.path() / entry.name;
    SHARD_TRY(const bool mounted, IsMountPoint(path));
    if (mounted) return CannotReplaceMountedFile(path);
    if (entry.kind != Kind::kDirectory) continue;
    SHARD_TRY(const InsideDirectory child, directory.OpenDirectory(entry.name));
    SHARD_TRY(const std::vector<Entry> below, child.List());
    SHARD_CHECK(CheckNoMountAmong(child, below));
  }
  return Ok();
}

bool IsMark(const std::vector<std::string>& marks, const std::string& name) {
  return std::find(marks.begin(), marks.end(), name) != marks.end();
}

Status RemoveOld(const InsideDirectory& target, const PublishingRecord& record) {
  for (const KnownFile& mark : record.marks) {
    SHARD_CHECK(target.RemoveFile(mark.name));
    SHARD_CHECK(target.Flush());
  }
  for (const KnownFile& file : record.old) SHARD_CHECK(target.RemoveFile(file.name));
  SHARD_CHECK(RemoveEmptyDirectories(target));
  return FlushOutput(target);
}

// Takes the new files back, and removes what is left of the old ones. A file that both outputs
// share may be one inode with two names: while it is staged, that in the target is the old one.
Status TakeBack(const InsideDirectory& staged, const InsideDirectory& target,
                const PublishingRecord& record) {
  for (const KnownFile& file : record.staged) {
    SHARD_TRY(const bool moved, IsTheFile(target, file));
    if (!moved) continue;
    SHARD_TRY(const bool waits, IsTheFile(staged, file));
    SHARD_CHECK(waits ? target.RemoveFile(file.name)
                      : target.Move(file.name, staged, file.name, false));
  }
  for (const auto* files : {&record.marks, &record.old}) {
    for (const KnownFile& file : *files) {
      SHARD_TRY(const bool left, IsTheFile(target, file));
      if (left) SHARD_CHECK(target.RemoveFile(file.name));
    }
  }
  return RemoveEmptyDirectories(target);
}

// Whether a run was publishing into `output` when it was killed. `root` is the name of its staging
// directory in `above`, if there is one.
Result<bool> HoldsPieces(const InsideDirectory& output, const InsideDirectory& above,
                         const std::string& root) {
  SHARD_TRY(const Kind kind, above.KindOf(root));
  if (kind != Kind::kDirectory) return false;
  SHARD_TRY(const InsideDirectory opened, above.OpenDirectory(root));
  SHARD_TRY(const auto record, ReadRecord(opened));
  SHARD_TRY(const Kind files, opened.KindOf(kStagedFiles));
  if (!record || files != Kind::kDirectory) return false;
  SHARD_TRY(const InsideDirectory staged, opened.OpenDirectory(kStagedFiles));
  SHARD_TRY(const Left left, LookAtLeft(staged, output, *record));
  return left == Left::kPieces;
}

Result<bool> IsDirectoryItself(const fs::path& path) {
  struct stat info;
  if (lstat(path.c_str(), &info) == 0) return S_ISDIR(info.st_mode);
  if (errno != ENOENT && errno != ENOTDIR) return IoError(path, "look it up", errno);
  return false;
}

bool MayWriteIn(const fs::path& directory) {
  return faccessat(AT_FDCWD, directory.c_str(), W_OK | X_OK, AT_EACCESS) == 0 ||
         (errno != EACCES && errno != EROFS);
}

}  // namespace

// ---- Looking

bool IsUnfinishedRun(const Entry& entry) {
  return entry.kind == Kind::kDirectory && entry.name.starts_with(Cat(kInsideName, ".")) &&
         entry.name.find(kPartialMark) != entry.name.npos;
}

Result<bool> IsBesideOutput(const fs::path& output, const Entry& entry) {
  if (entry.kind != Kind::kDirectory || entry.name != kLostAndFound) return IsUnfinishedRun(entry);
  std::error_code error;
  const fs::path whole = CanonicalPath(output, error);
  return error ? Result<bool>(false) : IsMountPoint(whole);
}

bool IsKeptName(std::string_view name) {
  const std::string_view first = name.substr(0, name.find('/'));
  return first == kLostAndFound || first.starts_with(Cat(kInsideName, "."));
}

Result<std::vector<Entry>> ListOutput(const InsideDirectory& output) {
  SHARD_TRY(const std::vector<Entry> all, output.List());
  std::vector<Entry> entries;
  for (const Entry& entry : all) {
    SHARD_TRY(const bool beside, IsBesideOutput(output.path(), entry));
    if (!beside) entries.push_back(entry);
  }
  return entries;
}

Result<std::vector<std::string>> ListOutputFiles(const InsideDirectory& output) {
  SHARD_TRY(const std::vector<Entry> entries, ListOutput(output));
  std::vector<std::string> names;
  for (const Entry& entry : entries) {
    if (entry.kind != Kind::kDirectory) {
      names.push_back(entry.name);
      continue;
    }
    SHARD_TRY(const InsideDirectory child, output.OpenDirectory(entry.name));
    SHARD_TRY(const std::vector<std::string> below, child.ListFiles());
    for (const std::string& name : below) names.push_back(Cat(entry.name, "/", name));
  }
  return names;
}

Status CheckHoldsNoMount(const InsideDirectory& output) {
  SHARD_TRY(const std::vector<Entry> entries, ListOutput(output));
  return CheckNoMountAmong(output, entries);
}

Result<bool> IsFreeOutput(const fs::path& path) {
  const fs::path entry = TidyPath(path);
  SHARD_TRY(const bool taken, IsTaken(entry));
  if (!taken) return true;
  SHARD_TRY(const bool directory, IsDirectoryItself(entry));
  if (!directory) return false;
  SHARD_TRY(const InsideDirectory opened, InsideDirectory::OpenItself(entry));
  SHARD_TRY(const std::vector<Entry> part, ListOutput(opened));
  if (part.empty()) return true;
  SHARD_TRY(const std::vector<Entry> entries, opened.List());
  for (const Entry& one : entries) {  // where there are no locks, every process has its own
    if (!one.name.starts_with(Cat(kInsideName, kPartialMark))) continue;
    SHARD_TRY(const bool inside, HoldsPieces(opened, opened, one.name));
    if (inside) return true;
  }
  const auto above = InsideDirectory::Open(entry.parent_path());
  // A directory that may not be listed holds no record that could be read.
  if (!above) return false;
  return HoldsPieces(opened, *above, entry.filename().string() + kPartialMark);
}

Result<bool> IsWrittenInside(const fs::path& target) {
  const fs::path entry = TidyPath(target);
  SHARD_TRY(const bool directory, IsDirectoryItself(entry));
  if (!directory) return false;
  SHARD_TRY(const bool mounted, IsMountPoint(entry));
  if (mounted || !MayWriteIn(entry.parent_path())) return true;
  SHARD_TRY(const bool current, IsSameFile(entry, "."));
  if (current) return true;
  SHARD_TRY(const InsideDirectory opened, InsideDirectory::OpenItself(entry));
  SHARD_TRY(const std::vector<Entry> entries, opened.List());
  return entries.empty() || std::any_of(entries.begin(), entries.end(), IsUnfinishedRun);
}

Result<fs::path> ScratchName(const fs::path& target, std::string_view word) {
  const fs::path entry = TidyPath(target);
  SHARD_TRY(const bool inside, IsWrittenInside(entry));
  if (inside) return entry / Cat(kInsideName, ".", word);
  return fs::path(Cat(entry.string(), ".", word));
}

// ---- Publishing

Status PublishInside(const InsidePlaces& places, const std::vector<std::string>& marks) {
  PublishingRecord record;
  SHARD_TRY(const std::vector<std::string> staged, places.files.ListFiles());
  SHARD_TRY(record.staged, Identify(places.files, staged));
  SHARD_TRY(const std::vector<std::string> there, ListOutputFiles(places.target));
  SHARD_TRY(std::vector<KnownFile> known, Identify(places.target, there));
  for (KnownFile& file : known)
    if (!IsMark(marks, file.name)) record.old.push_back(std::move(file));
  for (const std::string& mark : marks) {
    SHARD_TRY(std::string identity, places.target.IdentityOf(mark));
    if (!identity.empty()) record.marks.push_back({mark, std::move(identity)});
  }
  SHARD_CHECK(places.root.WriteText(kPublishingName, WriteRecord(record)));
  SHARD_CHECK(RemoveOld(places.target, record));
  const auto publish = [&](const std::string& name) {
    return places.files.Move(name, places.target, name, false);
  };
  for (const std::string& name : staged)
    if (!IsMark(marks, name)) SHARD_CHECK(publish(name));
  for (auto mark = marks.rbegin(); mark != marks.rend(); ++mark)
    if (std::find(staged.begin(), staged.end(), *mark) != staged.end()) SHARD_CHECK(publish(*mark));
  return Ok();
}

Status MendPublishing(const InsideDirectory& root, const InsideDirectory& target,
                      const std::string& files_name) {
  SHARD_TRY(const auto record, ReadRecord(root));
  if (!record) return Ok();
  SHARD_TRY(const Kind kind, root.KindOf(files_name));
  if (kind == Kind::kDirectory) {
    SHARD_TRY(const InsideDirectory files, root.OpenDirectory(files_name));
    SHARD_TRY(const Left left, LookAtLeft(files, target, *record));
    if (left == Left::kPieces) SHARD_CHECK(TakeBack(files, target, *record));
  }
  SHARD_CHECK(root.RemoveFile(kPublishingName));
  return root.Flush();
}

}  // namespace moepack
