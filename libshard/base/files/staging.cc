#include "libshard/base/files/staging.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libshard/base/files/file_lock.h"
#include "libshard/base/files/move_set.h"
#include "libshard/base/files/publish_inside.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using Kind = InsideDirectory::Kind;

constexpr const char* kLockName = ".lock";
constexpr const char* kJournalName = ".journal";
constexpr const char* kFilesName = kStagedFiles;
constexpr std::string_view kJournalFormat = "moepack-journal 1 ";
constexpr std::string_view kReplacedMark = ".replaced-";
constexpr std::string_view kRemovedMark = ".removed-";
constexpr int kLockAttempts = 1000;

// The first line of the journal without its format; "" if there is none.
std::string JournalIdentity(const InsideDirectory& root) {
  const auto text = root.ReadText(kJournalName, kMaxJournal);
  if (!text || !text->starts_with(kJournalFormat)) return "";
  const size_t end = text->find('\n');
  const size_t begin = kJournalFormat.size();
  return end == std::string::npos ? "" : text->substr(begin, end - begin);
}

bool IsRemoved(const std::string& name) {
  return name.starts_with(kRemovedMark) &&
         ParseUint(std::string_view(name).substr(kRemovedMark.size()));
}

bool IsTemporaryJournal(const std::string& name) {
  return TemporaryOf(name) == kJournalName || TemporaryOf(name) == kPublishingName;
}

bool IsOurName(const std::string& name) {
  return name == kLockName || name == kJournalName || name == kFilesName ||
         name == kPublishingName || IsRemoved(name) || IsTemporaryJournal(name);
}

// Whether a staging directory holds only what we put there. It contains the lock or the journal;
// or, as the lock is made first and removed last, and a power cut may undo the one or keep the
// other, nothing but temporary journals and what was to be removed.
bool IsOurs(const InsideDirectory& root, const std::vector<InsideDirectory::Entry>& entries) {
  const bool known = std::all_of(entries.begin(), entries.end(), [](const auto& entry) {
    const bool directory = entry.name == kFilesName || IsRemoved(entry.name);
    const Kind kind = directory ? Kind::kDirectory : Kind::kFile;
    return IsOurName(entry.name) && entry.kind == kind;
  });
  const bool locked = std::any_of(entries.begin(), entries.end(),
                                  [](const auto& entry) { return entry.name == kLockName; });
  const bool left = std::all_of(entries.begin(), entries.end(), [](const auto& entry) {
    return IsTemporaryJournal(entry.name) || IsRemoved(entry.name);
  });
  return known && (locked || left || !JournalIdentity(root).empty());
}

Error NotLeftByUs(const fs::path& root) {
  return {Code::kInvalidArgument,
          Cat(root.string(), " already exists, and no interrupted run left it"),
          "move it away, or choose another output"};
}

// Removes everything but the lock; anything doubtful stays. The files are moved aside before they
// are removed: without locks another run may be about to publish them, and only one of the two gets
// them.
Status RemoveContent(const InsideDirectory& root) {
  const std::string aside = Cat(kRemovedMark, getpid());
  SHARD_CHECK(root.Remove(aside));
  SHARD_TRY(const Kind kind, root.KindOf(kFilesName));
  if (kind != Kind::kNothing) {
    // Where it cannot be moved, it is removed below.
    const Result<bool> moved = root.MoveDirectory(kFilesName, root, aside);
    if (!moved && moved.error().code != Code::kNotFound) return moved.error();
  }
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, root.List());
  for (const InsideDirectory::Entry& entry : entries) {
    if (IsOurName(entry.name) && entry.name != kLockName) SHARD_CHECK(root.Remove(entry.name));
  }
  return Ok();
}

}  // namespace

// ---- The lock

std::string StagingDirectory::Name() const { return target_.filename().string(); }
std::string StagingDirectory::RootBase() const { return inside_ ? kInsideName : Name(); }
std::string StagingDirectory::RootName() const {
  return own_root_.empty() ? RootBase() + kPartialMark : own_root_;
}

Result<StagingDirectory> StagingDirectory::Open(const fs::path& target,
                                                std::optional<OwnOutput> own) {
  StagingDirectory staging;
  staging.target_ = TidyPath(target);
  staging.own_ = std::move(own);
  SHARD_TRY(staging.inside_, IsWrittenInside(staging.target_));
  if (staging.inside_) {
    SHARD_TRY(staging.home_, InsideDirectory::OpenItself(staging.target_));
  } else {
    SHARD_TRY(staging.home_, InsideDirectory::OpenOrMake(staging.target_.parent_path()));
  }
  SHARD_CHECK(staging.Lock());
  SHARD_CHECK(staging.MendInside());
  if (staging.own_ && !staging.inside_) staging.MendReplaced();
  return staging;
}

Result<StagingDirectory> StagingDirectory::Start(const fs::path& target,
                                                 const std::string& identity,
                                                 std::optional<OwnOutput> own) {
  SHARD_TRY(StagingDirectory staging, Open(target, std::move(own)));
  SHARD_CHECK(staging.Begin(identity));
  return staging;
}

Status StagingDirectory::Lock() {
  for (int attempt = 0; attempt < kLockAttempts; ++attempt) {
    SHARD_TRY(const bool locked, TryLock());
    if (locked) return Ok();
  }
  return Error{Code::kIo, Cat((home_->path() / RootName()).string(),
                              ": lock: another process keeps removing it")};
}

// Makes the directory if necessary and takes its lock. False if another process removed it
// meanwhile.
Result<bool> StagingDirectory::TryLock() {
  const fs::path root = home_->path() / RootName();
  SHARD_TRY(const Kind kind, home_->KindOf(RootName()));
  if (kind == Kind::kFile || kind == Kind::kOther) return NotLeftByUs(root);
  auto opened = kind == Kind::kNothing ? home_->MakeDirectories(RootName())
                                       : home_->OpenDirectory(RootName());
  const bool gone = kind != Kind::kLink;
  if (!opened && opened.error().code == Code::kNotFound && gone) return false;
  if (!opened) return std::move(opened).error();
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, opened->List());
  if (!IsOurs(*opened, entries)) {
    // It may look foreign while another process is removing it.
    SHARD_TRY(const std::vector<InsideDirectory::Entry> again, opened->List());
    if (again != entries) return false;
    return NotLeftByUs(root);
  }
  auto lock = opened->OpenFile(kLockName, O_RDWR | O_CREAT);
  if (!lock && lock.error().code == Code::kNotFound) return false;
  if (!lock) {
    if (kind == Kind::kNothing) (void)home_->RemoveEmptyDirectory(RootName()).has_value();
    return std::move(lock).error();
  }
  const auto taken = TakeLock(*opened, kLockName, *lock);
  if (!taken && taken.error().code == Code::kNotFound) return false;
  if (!taken) return taken.error();
  if (*taken == FileLock::kHeld) {
    return Error{Code::kIo, Cat(target_.string(), ": another process is writing it"),
                 "wait for it, or choose another output"};
  }
  if (*taken == FileLock::kNone && own_root_.empty()) {
    SHARD_CHECK(UseOwnRoot(*opened));
    return false;
  }
  // Its last owner may have removed the lock, or all of the directory, between open and flock.
  SHARD_TRY(const Kind still, opened->KindOf(kLockName));
  SHARD_TRY(const bool same, opened->IsStill(*home_, RootName()));
  if (still != Kind::kFile || !same) return false;
  root_ = std::move(opened).value();
  lock_ = std::move(lock).value();
  return true;
}

// Where there are no locks each process has a directory of its own, so that two runs for one output
// cannot disturb each other. It goes on with what a process of this machine left when it ended.
Status StagingDirectory::UseOwnRoot(const InsideDirectory& shared) {
  SHARD_TRY(const std::vector<InsideDirectory::Entry> entries, shared.List());
  if (entries.size() == 1 && entries[0].name == kLockName) {  // made by us, or by another like us
    SHARD_CHECK(shared.Remove(kLockName));
    (void)home_->RemoveEmptyDirectory(RootName()).has_value();
  }
  const std::string prefix = Cat(RootBase(), kPartialMark, "-");
  own_root_ = prefix + ProcessName();
  SHARD_TRY(const std::vector<InsideDirectory::Entry> beside, home_->List());
  for (const InsideDirectory::Entry& entry : beside) {
    const bool left = entry.kind == Kind::kDirectory && entry.name.starts_with(prefix) &&
                      IsEndedProcess(entry.name.substr(prefix.size()));
    if (left && home_->Move(entry.name, *home_, own_root_, false)) break;
  }
  return Ok();
}

// ---- A run

Status StagingDirectory::Begin(const std::string& identity) {
  resumed_ = JournalIdentity(*root_) == identity;
  if (!resumed_) {
    SHARD_CHECK(RemoveContent(*root_));
    SHARD_CHECK(root_->WriteText(kJournalName, Cat(kJournalFormat, identity, "\n")));
  }
  SHARD_TRY(files_, root_->MakeDirectories(kFilesName));
  begun_ = true;
  return Ok();
}

Result<Journal> StagingDirectory::OpenJournal() const {
  return Journal::Open(*root_, kJournalName);
}

Status StagingDirectory::WriteText(const std::string& name, std::string_view text) {
  Expect(name);
  return files_->WriteText(name, text);
}

StagingDirectory::StagingDirectory(StagingDirectory&& other) noexcept = default;

StagingDirectory::~StagingDirectory() {
  if (!lock_.valid() || published_ || keep_ || InterruptRequested().load()) return;
  // A run that was refused before it began does not touch what an earlier one wrote.
  if (!begun_ && !JournalIdentity(*root_).empty()) return;
  (void)Discard().has_value();
}

// The lock is removed last, so that the next run still recognises as ours what a run killed here
// leaves behind.
Status StagingDirectory::Discard() {
  published_ = true;
  SHARD_CHECK(RemoveContent(*root_));
  SHARD_CHECK(root_->Remove(kLockName));
  // Another process may already have made its own lock in it.
  (void)home_->RemoveEmptyDirectory(RootName()).has_value();
  return Ok();
}

// ---- Publishing

// Removes what an earlier run left, such as a file that it had not renamed yet.
Status StagingDirectory::RemoveUnexpected() {
  SHARD_TRY(const std::vector<std::string> names, files_->ListFiles());
  size_t expected = 0;
  for (const std::string& name : names) {
    if (expected_.contains(name)) {
      ++expected;
    } else {
      SHARD_CHECK(files_->Remove(name));
    }
  }
  if (expected != expected_.size()) return OtherRun("files that this run wrote", "fewer");
  return files_->FlushAll();
}

// False if a directory cannot be renamed. Afterwards `aside` is where the old target is, or "" if
// it was not moved.
Result<bool> StagingDirectory::RenameToTarget(bool replace, std::string& aside) {
  SHARD_TRY(const Kind kind, home_->KindOf(Name()));
  if (kind != Kind::kNothing && replace && own_) {
    SHARD_TRY(const InsideDirectory old, home_->OpenDirectory(Name()));
    SHARD_CHECK(own_->check(old));
    const std::string name = Cat(Name(), kReplacedMark, getpid());
    SHARD_TRY(const bool moved, home_->MoveDirectory(Name(), *home_, name));
    if (!moved) return false;
    aside = name;
  }
  const Result<bool> moved = root_->MoveDirectory(kFilesName, *home_, Name());
  if (moved && !*moved) return false;
  const Result<bool> there = files_->IsStill(*home_, Name());
  renamed_ = moved || (there && *there);
  if (!moved && !aside.empty()) {
    (void)home_->Move(aside, *home_, Name(), false).has_value();
  }
  if (!moved) return moved.error();
  if (!there) return there.error();
  if (!*there) return OtherRun("the directory that this run wrote", "another");
  return true;
}

Status StagingDirectory::PublishInto(const InsideDirectory& target, bool replace) {
  SHARD_TRY(const std::vector<InsideDirectory::Entry> there, ListOutput(target));
  if (!there.empty() && (!replace || !own_)) {
    return Error{Code::kInvalidArgument,
                 Cat(target_.string(), " already exists, and holds ", Quoted(there[0].name)),
                 "--force replaces what moepack wrote there; or choose another output"};
  }
  if (!there.empty()) SHARD_CHECK(own_->check(target));
  const std::vector<std::string> none;
  SHARD_CHECK(PublishInside({*root_, *files_, target}, own_ ? own_->marks : none));
  renamed_ = true;
  return Ok();
}

Status StagingDirectory::PublishDirectory(bool replace) {
  SHARD_CHECK(RemoveUnexpected());
  std::string aside;
  bool renamed = false;
  if (!inside_) {
    SHARD_TRY(renamed, RenameToTarget(replace, aside));
  }
  if (inside_) {
    SHARD_CHECK(PublishInto(*home_, replace));
  } else if (!renamed) {
    SHARD_TRY(const InsideDirectory target, home_->MakeDirectories(Name()));
    SHARD_CHECK(PublishInto(target, replace));
  }
  if (!aside.empty()) RemoveReplaced(aside);
  return Discard();
}

Status StagingDirectory::MoveFiles(const std::vector<std::string>& names, bool replace) {
  SHARD_CHECK(replace ? ReplaceSet(*files_, *home_, names) : CompleteSet(*files_, *home_, names));
  return Discard();
}

// All the work is done by the time publishing fails, so it is not thrown away.
Status StagingDirectory::SayWhatIsKept(Status status) {
  if (status || published_) return status;
  keep_ = true;
  Error error = std::move(status).error();
  if (!error.hint.empty()) error.hint += "; ";
  error.hint += Cat("what was written is kept in ", kept_in().string(),
                    ": the same command resumes from there");
  return error;
}

Error StagingDirectory::OtherRun(std::string_view expected, std::string_view found) const {
  return {Code::kIo, Cat(files_->path().string(), ": expected ", expected, ", found ", found),
          "another process is writing the same output, and the file system has no locks"};
}

Status StagingDirectory::Publish(bool replace) {
  const Result<bool> ours = files_->IsStill(*root_, kFilesName);
  if (!ours) return SayWhatIsKept(ours.error());
  if (*ours) return SayWhatIsKept(PublishDirectory(replace));
  keep_ = true;  // what is there now belongs to another run
  return OtherRun("the directory that this run writes", "another or none");
}

Status StagingDirectory::PublishFiles(const std::vector<std::string>& names, bool replace) {
  if (inside_) {  // a directory has got the name of the file
    return SayWhatIsKept(Error{Code::kInvalidArgument, Cat(target_.string(), " is a directory"),
                               "move it away, or choose another output"});
  }
  return SayWhatIsKept(MoveFiles(names, replace));
}

Status StagingDirectory::MoveInto(const InsideDirectory& directory,
                                  const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    Status moved = files_->Move(name, directory, name, true);
    if (!moved) return SayWhatIsKept(std::move(moved));
  }
  return Ok();
}

// ---- What a killed run was publishing

Status StagingDirectory::MendInside() {
  SHARD_TRY(const Kind record, root_->KindOf(kPublishingName));
  if (record == Kind::kNothing) return Ok();
  if (inside_) return MendPublishing(*root_, *home_, kFilesName);
  SHARD_TRY(const InsideDirectory target, home_->MakeDirectories(Name()));
  SHARD_CHECK(MendPublishing(*root_, target, kFilesName));
  // It stays if it holds anything.
  (void)home_->RemoveEmptyDirectory(Name()).has_value();
  return Ok();
}

// ---- What was replaced

void StagingDirectory::RemoveReplaced(const std::string& name) {
  const Status removed = home_->Remove(name, own_->marks);
  if (removed) return;
  warnings_.push_back(Cat((home_->path() / name).string(),
                          ": what was replaced could not be removed (", removed.error().message,
                          "); the next run that writes ", target_.string(), " tries again"));
}

void StagingDirectory::MendReplaced() {
  const auto entries = home_->List();
  if (!entries) return;
  const std::string prefix = Cat(Name(), kReplacedMark);
  for (const InsideDirectory::Entry& entry : *entries) {
    const bool named = entry.name.starts_with(prefix) && entry.kind == Kind::kDirectory &&
                       ParseUint(std::string_view(entry.name).substr(prefix.size()));
    if (!named) continue;
    MendReplaced(entry.name);
  }
}

void StagingDirectory::MendReplaced(const std::string& name) {
  const auto directory = home_->OpenDirectory(name);
  Status mended = directory ? own_->check(*directory) : Status(directory.error());
  if (mended) {
    const auto target = home_->KindOf(Name());
    const bool removed = target && *target != Kind::kNothing;
    if (removed) return RemoveReplaced(name);
    mended = home_->Move(name, *home_, Name(), false);
  }
  if (mended) return;
  warnings_.push_back(Cat(
      (home_->path() / name).string(),
      ": looks like what an earlier run replaced, but is left alone: ", mended.error().message));
}

}  // namespace moepack
