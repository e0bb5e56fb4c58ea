// An output while it is being written: locked, resumable, and published in one step.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/inside_directory.h"
#include "libshard/base/files/journal.h"
#include "libshard/base/result.h"

namespace moepack {

// Ends the name of a directory while it is written.
inline constexpr const char* kPartialMark = ".partial";
// Where the files of an output are in its staging directory.
inline constexpr const char* kStagedFiles = "files";

// What an output may replace: only what moepack wrote.
struct OwnOutput {
  // Returns an error unless the directory is ours and holds nothing else; the error names what is
  // not ours.
  std::function<Status(const InsideDirectory&)> check;
  // The files by which the check and others recognise the output. What was moved aside is removed
  // with them last; for an output that is replaced file by file see PublishInside.
  std::vector<std::string> marks;
};

// A directory being written: `<target>.partial/files` until Publish renames it to the target. Where
// IsWrittenInside (publish_inside.h) it is `<target>/.moepack.partial/files`, and its files are
// renamed one by one, as they are where the file system refuses to rename the directory.
// Beside `files` are a lock, so that a second process is refused (kIo), and a journal of finished
// tensors, so that a killed run resumes where it stopped if the identity of the run (a digest of
// everything that determines the output bytes) is unchanged. Otherwise the contents are discarded.
// Nothing is written or removed through links.
class StagingDirectory {
 public:
  // Takes the lock; until it is released nobody else writes this target. Repairs what a killed
  // Publish left behind: what it published file by file is taken back (MendPublishing);
  // `<target>.replaced-<pid>` becomes the target again if there is none, and
  // is removed otherwise; in both cases only if it is ours. Without `own`, nothing counts as ours.
  static Result<StagingDirectory> Open(const fs::path& target,
                                       std::optional<OwnOutput> own = std::nullopt);
  // Open and Begin, for a run that need not look at the target in between.
  static Result<StagingDirectory> Start(const fs::path& target, const std::string& identity,
                                        std::optional<OwnOutput> own = std::nullopt);
  StagingDirectory(StagingDirectory&&) noexcept;
  StagingDirectory& operator=(StagingDirectory&&) = delete;
  // Removes the directory unless it was published or kept, or the run was interrupted.
  ~StagingDirectory();

  // Call it once, before anything is written: it resumes the run with this identity, or discards
  // what is there.
  Status Begin(const std::string& identity);
  bool resumed() const { return resumed_; }
  Result<Journal> OpenJournal() const;

  // Where the files go. REQUIRES, from here on: Begin was called.
  fs::path path() const { return files_->path(); }
  const InsideDirectory& files() const { return *files_; }
  const fs::path& target() const { return target_; }
  // Where the run resumes if this is kept.
  fs::path kept_in() const { return home_->path() / RootName(); }
  // Declares that this run writes `name`. Everything else in `files`, which an earlier run may have
  // left, is removed before publishing.
  void Expect(const std::string& name) { expected_.insert(name); }
  // Expects one file and writes it.
  Status WriteText(const std::string& name, std::string_view text);
  void Keep() { keep_ = true; }

  // Flushes, renames to the target, removes the rest. With `replace`, an existing target is
  // replaced if it is ours; it is moved aside first and deleted last, or, where files are renamed
  // one by one, removed before. Otherwise a target that is not free (IsFreeOutput) is an error.
  // After an error here the directory is kept.
  Status Publish(bool replace);
  // Whether Publish came as far as the rename, also when it failed behind it.
  bool renamed() const { return renamed_; }
  // The same for staged files that go beside each other into the target's directory, under their
  // own names: a single file, or the parts of a split set, of which the first comes last. With
  // `replace`, the first file of an older set is removed before any other is replaced, so that
  // files of two sets are never taken for one. Without it a file that is there already has to hold
  // the same bytes, as a run leaves that ended between two renames.
  Status PublishFiles(const std::vector<std::string>& names, bool replace);
  // The same for files that go into an existing directory; the caller then publishes the file that
  // lists them and calls Discard.
  Status MoveInto(const InsideDirectory& directory, const std::vector<std::string>& names);
  Status Discard();

  // What the user should know about files that were left behind.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  StagingDirectory() = default;
  std::string Name() const;      // of the target in home_, unless it is that
  std::string RootBase() const;  // of this directory without kPartialMark
  std::string RootName() const;  // of this directory in home_
  Status Lock();
  Result<bool> TryLock();
  Status UseOwnRoot(const InsideDirectory& shared);
  Status MendInside();
  void MendReplaced();
  void MendReplaced(const std::string& name);
  Status RemoveUnexpected();
  Error OtherRun(std::string_view expected, std::string_view found) const;
  Result<bool> RenameToTarget(bool replace, std::string& aside);
  Status PublishInto(const InsideDirectory& target, bool replace);
  Status PublishDirectory(bool replace);
  Status MoveFiles(const std::vector<std::string>& names, bool replace);
  Status SayWhatIsKept(Status status);
  void RemoveReplaced(const std::string& name);

  fs::path target_;
  std::optional<OwnOutput> own_;
  std::optional<InsideDirectory> home_, root_, files_;  // home_: the target, or what holds it
  bool inside_ = false;                                 // home_ is the target
  Descriptor lock_;
  std::string own_root_;  // the name of this directory where there are no locks
  std::set<std::string> expected_;
  std::vector<std::string> warnings_;
  bool begun_ = false, keep_ = false, published_ = false, resumed_ = false, renamed_ = false;
};

}  // namespace moepack
