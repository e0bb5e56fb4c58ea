#include "libshard/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "libshard/text.h"

namespace shard {
namespace {

constexpr uint64_t kMaxJournal = uint64_t{1} << 30;
constexpr size_t kMaxOutputs = 1u << 20;
constexpr size_t kDigestLength = 32;

}  // namespace

Result<Journal> Journal::Open(const fs::path& path) {
  SHARD_TRY(const std::string text, ReadTextFile(path, kMaxJournal));
  Journal journal;
  journal.path_ = path;
  const std::vector<std::string> lines = Split(text, '\n');
  // The first line is the identity; what follows the last line feed was cut short.
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    const std::vector<std::string> fields = Split(lines[i], ' ');
    if (fields.size() != 3 || fields[2].size() != kDigestLength) continue;
    const auto output = ParseUint(fields[0]);
    const auto tensor = ParseUint(fields[1]);
    if (!output || !tensor || *output >= kMaxOutputs) continue;
    if (journal.finished_.size() <= *output) journal.finished_.resize(*output + 1);
    std::vector<std::string>& digests = journal.finished_[*output];
    // An output that was started again from a tensor rewrites the lines from there.
    if (*tensor > digests.size()) continue;
    digests.resize(*tensor);
    digests.push_back(fields[2]);
  }
  journal.fd_ = open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (journal.fd_ < 0) {
    return Error{Code::kIo, Cat(path.string(), ": open: ", ErrnoText(errno))};
  }
  // A torn last line must not swallow the first new one.
  if (!text.ends_with('\n') && write(journal.fd_, "\n", 1) != 1) {
    return Error{Code::kIo, Cat(path.string(), ": write: ", ErrnoText(errno))};
  }
  return journal;
}

Journal::Journal(Journal&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::exchange(other.fd_, -1)),
      finished_(std::move(other.finished_)) {}

Journal::~Journal() {
  if (fd_ >= 0) close(fd_);
}

Status Journal::Add(size_t output, size_t tensor, const std::string& xxh3) {
  const std::string line = Cat(output, " ", tensor, " ", xxh3, "\n");
  // One write per line: O_APPEND keeps lines of several threads whole.
  if (write(fd_, line.data(), line.size()) == static_cast<ssize_t>(line.size())) return Ok();
  return Error{Code::kIo, Cat(path_.string(), ": write: ", ErrnoText(errno))};
}

}  // namespace shard
