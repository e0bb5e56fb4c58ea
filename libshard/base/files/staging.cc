#include "libshard/base/files/staging.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "libshard/base/files/file_lock.h"
#include "libshard/base/files/move_set.h"
#include "libshard/base/files/real_path.h"
#include "libshard/base/parallel.h"
#include "libshard/base/text/text.h"

namespace moepack {
namespace {

using Kind = InsideDirectory::Kind;

constexpr const char* kLockName = ".lock";
constexpr const char* kJournalName = ".journal";
constexpr const char* kFilesName = "files";
constexpr std::string_view kJournalFormat = "moepack-journal 1 ";
constexpr std::string_view kReplacedMark = ".replaced-";
constexpr std::string_view kRemovedMark = ".removed-";
constexpr int kLockAttempts = 1000;

// The name of the target even if nothing exists there yet.
fs::path WholePath(const fs::path& target) {
  const fs::path path = AbsolutePath(target).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

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

bool IsTemporaryJournal(const std::string& name) { return TemporaryOf(name) == kJournalName; }

bool IsOurName(const std::string& name) {
  return name == kLockName || name == kJournalName || name == kFilesName || IsRemoved(name) ||
         IsTemporaryJournal(name);
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
    const Status moved = root.Move(kFilesName, root, aside, false);
    if (!moved && moved.error().code != Code::kNotFound) return moved;
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
std::string StagingDirectory::RootName() const {
  return own_root_.empty() ? Name() + kPartialMark : own_root_;
}

Result<StagingDirectory> StagingDirectory::Open(const fs::path& target,
                                                std::optional<OwnOutput> own) {
  StagingDirectory staging;
  staging.target_ = WholePath(target);
  staging.own_ = std::move(own);
  SHARD_TRY(staging.parent_, InsideDirectory::OpenOrMake(staging.target_.parent_path()));
  SHARD_CHECK(staging.Lock());
  if (staging.own_) staging.MendReplaced();
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
  return Error{Code::kIo, Cat((parent_->path() / RootName()).string(),
                              ": lock: another process keeps removing it")};
}

// Makes the directory if necessary and takes its lock. False if another process removed it
// meanwhile.
Result<bool> StagingDirectory::TryLock() {
  const fs::path root = parent_->path() / RootName();
  SHARD_TRY(const Kind kind, parent_->KindOf(RootName()));
  if (kind == Kind::kFile || kind == Kind::kOther) return NotLeftByUs(root);
  auto opened = kind == Kind::kNothing ? parent_->MakeDirectories(RootName())
                                       : parent_->OpenDirectory(RootName());
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
    if (kind == Kind::kNothing) (void)parent_->RemoveEmptyDirectory(RootName()).has_value();
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
  SHARD_TRY(const bool same, opened->IsStill(*parent_, RootName()));
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
    (void)parent_->RemoveEmptyDirectory(RootName()).has_value();
  }
  const std::string prefix = Cat(Name(), kPartialMark, "-");
  own_root_ = prefix + ProcessName();
  SHARD_TRY(const std::vector<InsideDirectory::Entry> beside, parent_->List());
  for (const InsideDirectory::Entry& entry : beside) {
    const bool left = entry.kind == Kind::kDirectory && entry.name.starts_with(prefix) &&
                      IsEndedProcess(entry.name.substr(prefix.size()));
    if (left && parent_->Move(entry.name, *parent_, own_root_, false)) break;
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
  (void)parent_->RemoveEmptyDirectory(RootName()).has_value();
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

// Afterwards `aside` is where the old target is, or "" if there was none.
Status StagingDirectory::RenameToTarget(bool replace, std::string& aside) {
  SHARD_TRY(const Kind kind, parent_->KindOf(Name()));
  if (kind != Kind::kNothing && replace && own_) {
    SHARD_TRY(const InsideDirectory old, parent_->OpenDirectory(Name()));
    SHARD_CHECK(own_->check(old));
    aside = Cat(Name(), kReplacedMark, getpid());
    SHARD_CHECK(parent_->Move(Name(), *parent_, aside, false));
  }
  const Status status = root_->Move(kFilesName, *parent_, Name(), false);
  const Result<bool> there = files_->IsStill(*parent_, Name());
  renamed_ = status || (there && *there);
  if (!status && !aside.empty()) {
    (void)parent_->Move(aside, *parent_, Name(), false).has_value();
  }
  if (!status) return status;
  if (!there) return there.error();
  return *there ? Ok() : Status(OtherRun("the directory that this run wrote", "another"));
}

Status StagingDirectory::PublishDirectory(bool replace) {
  SHARD_CHECK(RemoveUnexpected());
  std::string aside;
  SHARD_CHECK(RenameToTarget(replace, aside));
  if (!aside.empty()) RemoveReplaced(aside);
  return Discard();
}

Status StagingDirectory::MoveFiles(const std::vector<std::string>& names, bool replace) {
  SHARD_CHECK(replace ? ReplaceSet(*files_, *parent_, names)
                      : CompleteSet(*files_, *parent_, names));
  return Discard();
}

// All the work is done by the time publishing fails, so it is not thrown away.
Status StagingDirectory::SayWhatIsKept(Status status) {
  if (status || published_) return status;
  keep_ = true;
  Error error = std::move(status).error();
  if (!error.hint.empty()) error.hint += "; ";
  error.hint += Cat("what was written is kept in ", (parent_->path() / RootName()).string(),
                    ": the same command resumes from there");
  return error;
}

Error StagingDirectory::OtherRun(std::string_view expected, std::string_view found) const {
  return {Code::kIo, Cat(files_->path().string(), ": expected ", expected, ", found ", found),
          "another process writes the same output, and the file system keeps no locks"};
}

Status StagingDirectory::Publish(bool replace) {
  const Result<bool> ours = files_->IsStill(*root_, kFilesName);
  if (!ours) return SayWhatIsKept(ours.error());
  if (*ours) return SayWhatIsKept(PublishDirectory(replace));
  keep_ = true;  // what is there now belongs to another run
  return OtherRun("the directory that this run writes", "another or none");
}

Status StagingDirectory::PublishFiles(const std::vector<std::string>& names, bool replace) {
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

// ---- What was replaced

void StagingDirectory::RemoveReplaced(const std::string& name) {
  const Status removed = parent_->Remove(name, own_->marks);
  if (removed) return;
  warnings_.push_back(Cat((parent_->path() / name).string(),
                          ": what was replaced could not be removed (", removed.error().message,
                          "); the next run that writes ", target_.string(), " tries again"));
}

void StagingDirectory::MendReplaced() {
  const auto entries = parent_->List();
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
  const auto directory = parent_->OpenDirectory(name);
  Status mended = directory ? own_->check(*directory) : Status(directory.error());
  if (mended) {
    const auto target = parent_->KindOf(Name());
    const bool removed = target && *target != Kind::kNothing;
    if (removed) return RemoveReplaced(name);
    mended = parent_->Move(name, *parent_, Name(), false);
  }
  if (mended) return;
  warnings_.push_back(Cat(
      (parent_->path() / name).string(),
      ": looks like what an earlier run replaced, but is left alone: ", mended.error().message));
}

}  // namespace moepack
