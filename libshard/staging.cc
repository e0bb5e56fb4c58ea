#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

#include "libshard/file.h"
#include "libshard/pack.h"
#include "libshard/parallel.h"
#include "libshard/text.h"

namespace shard {
namespace {

constexpr const char* kLockName = ".lock";
constexpr const char* kJournalName = ".journal";
constexpr const char* kJournalFormat = "moepack-journal 1 ";

Error StagingError(const fs::path& path, std::string_view action, const std::error_code& error) {
  return Error{Code::kIo, Cat(path.string(), ": ", action, ": ", error.message())};
}

// The first line of the journal without its format, "" when there is none.
std::string JournalIdentity(const fs::path& journal) {
  constexpr uint64_t kMaxJournal = uint64_t{1} << 30;
  const auto text = ReadTextFile(journal, kMaxJournal);
  if (!text || !text->starts_with(kJournalFormat)) return "";
  const size_t begin = std::string_view(kJournalFormat).size();
  const size_t end = text->find('\n');
  return end == std::string::npos ? "" : text->substr(begin, end - begin);
}

// Everything but the lock.
Status Empty(const fs::path& directory) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    if (entry.path().filename() == kLockName) continue;
    fs::remove_all(entry.path(), error);
    if (error) break;
  }
  if (error) return StagingError(directory, "remove what an earlier run left", error);
  return Ok();
}

Status FlushTree(const fs::path& directory) {
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(directory, error)) {
    std::error_code status_error;
    if (entry.is_directory(status_error)) SHARD_CHECK(FlushDirectory(entry.path()));
  }
  if (error) return StagingError(directory, "list", error);
  return FlushDirectory(directory);
}

}  // namespace

Result<StagingDirectory> StagingDirectory::Open(const fs::path& target,
                                                const std::string& identity) {
  StagingDirectory staging;
  staging.target_ = fs::absolute(target).lexically_normal();
  if (!staging.target_.has_filename()) staging.target_ = staging.target_.parent_path();
  staging.root_ = staging.target_;
  staging.root_ += ".partial";
  staging.published_ = true;  // until the directory is known to be ours, leave it alone
  SHARD_CHECK(staging.Lock());
  staging.published_ = false;

  staging.resumed_ = JournalIdentity(staging.journal_path()) == identity;
  if (!staging.resumed_) {
    SHARD_CHECK(Empty(staging.root_));
    SHARD_CHECK(WriteTextFile(staging.journal_path(), Cat(kJournalFormat, identity, "\n")));
  }
  std::error_code error;
  fs::create_directories(staging.path(), error);
  if (error) return StagingError(staging.path(), "create", error);
  return staging;
}

// Makes the directory if need be and takes its lock.
Status StagingDirectory::Lock() {
  std::error_code error;
  const fs::path lock = root_ / kLockName;
  const bool existed = fs::exists(root_, error);
  if (existed && !fs::exists(lock, error) && !fs::is_empty(root_, error)) {
    return Error{Code::kInvalidArgument,
                 Cat(root_.string(),
                     ": expected nothing, or what an interrupted run left, found "
                     "something else"),
                 "move it away, or choose another output"};
  }
  fs::create_directories(root_, error);
  if (error) return StagingError(root_, "create", error);
  lock_fd_ = open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (lock_fd_ < 0) {
    const std::error_code reason(errno, std::generic_category());
    if (!existed) fs::remove(root_, error);
    return StagingError(lock, "create", reason);
  }
  if (flock(lock_fd_, LOCK_EX | LOCK_NB) == 0) return Ok();
  return Error{Code::kIo, Cat(target_.string(), ": another process is writing it"),
               "wait for it, or choose another output"};
}

StagingDirectory::StagingDirectory(StagingDirectory&& other) noexcept
    : target_(std::move(other.target_)),
      root_(std::move(other.root_)),
      lock_fd_(std::exchange(other.lock_fd_, -1)),
      keep_(other.keep_),
      published_(std::exchange(other.published_, true)),
      resumed_(other.resumed_) {}

StagingDirectory::~StagingDirectory() {
  const bool interrupted = InterruptRequested().load();
  if (!published_ && !keep_ && !interrupted) {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  if (lock_fd_ >= 0) close(lock_fd_);
}

fs::path StagingDirectory::journal_path() const { return root_ / kJournalName; }

Status StagingDirectory::Publish(bool replace) {
  std::error_code error;
  const bool taken = fs::exists(fs::symlink_status(target_, error));
  if (taken && !replace) {
    return Error{Code::kInvalidArgument,
                 Cat(target_.string(), ": expected nothing there, found one"),
                 "use --force to replace it"};
  }
  SHARD_CHECK(FlushTree(path()));
  fs::path aside = target_;
  aside += Cat(".replaced-", getpid());
  if (taken) {
    fs::rename(target_, aside, error);
    if (error) return StagingError(target_, "move aside", error);
  }
  fs::rename(path(), target_, error);
  if (error) {
    std::error_code ignored;
    if (taken) fs::rename(aside, target_, ignored);
    return StagingError(target_, "rename", error);
  }
  published_ = true;
  SHARD_CHECK(FlushDirectory(target_.parent_path()));
  fs::remove_all(root_, error);
  if (taken) fs::remove_all(aside, error);
  return Ok();
}

Status StagingDirectory::PublishFiles(const std::vector<std::string>& names, bool replace) {
  const fs::path directory = target_.parent_path();
  for (const std::string& name : names) {
    std::error_code error;
    if (replace || !fs::exists(fs::symlink_status(directory / name, error))) continue;
    return Error{Code::kInvalidArgument,
                 Cat((directory / name).string(), ": expected nothing there, found one"),
                 "use --force to replace it"};
  }
  SHARD_CHECK(FlushTree(path()));
  for (const std::string& name : names) {
    std::error_code error;
    fs::rename(path() / name, directory / name, error);
    if (error) return StagingError(directory / name, "rename", error);
  }
  published_ = true;
  SHARD_CHECK(FlushDirectory(directory));
  std::error_code ignored;
  fs::remove_all(root_, ignored);
  return Ok();
}

}  // namespace shard
