#include "libshard/base/files/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "libshard/base/text/text.h"

namespace moepack {
namespace {

constexpr size_t kMaxOutputs = 1u << 20;
constexpr size_t kDigestLength = 32;

}  // namespace

Result<Journal> Journal::Open(const InsideDirectory& directory, const std::string& name) {
  SHARD_TRY(const std::string text, directory.ReadText(name, kMaxJournal));
  Journal journal;
  journal.path_ = directory.path() / name;
  const std::vector<std::string> lines = Split(text, '\n');
  // The first line is the identity; anything after the last line feed was cut short.
  for (size_t i = 1; i + 1 < lines.size(); ++i) {
    const std::vector<std::string> fields = Split(lines[i], ' ');
    if (fields.size() != 3 || fields[2].size() != kDigestLength) continue;
    const auto output = ParseUint(fields[0]);
    const auto tensor = ParseUint(fields[1]);
    if (!output || !tensor || *output >= kMaxOutputs) continue;
    if (journal.finished_.size() <= *output) journal.finished_.resize(*output + 1);
    std::vector<std::string>& digests = journal.finished_[*output];
    // An output that was restarted at a tensor rewrites the lines from there on.
    if (*tensor > digests.size()) continue;
    digests.resize(*tensor);
    digests.push_back(fields[2]);
  }
  SHARD_TRY(journal.fd_, directory.OpenFile(name, O_WRONLY | O_APPEND));
  // A torn last line must not swallow the first new one.
  if (!text.ends_with('\n')) SHARD_CHECK(journal.Append("\n"));
  return journal;
}

Status Journal::Add(size_t output, size_t tensor, std::string_view xxh3) {
  return Append(Cat(output, " ", tensor, " ", xxh3, "\n"));
}

// A write may write only part of a line; the lock keeps lines of other threads out of it.
Status Journal::Append(std::string_view line) {
  const std::lock_guard lock(*mutex_);
  while (!line.empty()) {
    const ssize_t written = write(fd_.get(), line.data(), line.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return IoError(path_, "write", errno);
    line.remove_prefix(static_cast<size_t>(written));
  }
  return Ok();
}

}  // namespace moepack
