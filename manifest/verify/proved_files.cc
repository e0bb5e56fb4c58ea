#include "manifest/verify/proved_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <span>

#include "libshard/base/digest.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"

namespace moepack::manifest {
namespace {

constexpr std::string_view kHeading = "moepack-verify 1\n";
constexpr uint64_t kMaxNotes = 64u << 20;  // bytes: some two million files

Status Append(int fd, const std::string& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return IoError(path, "write", errno);
    text.remove_prefix(static_cast<size_t>(written));
  }
  return Ok();
}

}  // namespace

std::string ProvedFiles::KeyOf(const File& file) {
  // The name may hold any byte, so it comes last and with its length: different files never give
  // the same text.
  const std::string text = Cat(file.sha256, " ", file.cold ? "cold " : "", file.identity, " ",
                               file.name.size(), " ", file.name);
  return Xxh3Hex(std::as_bytes(std::span(text)));
}

Result<ProvedFiles> ProvedFiles::Open(const std::string& path) {
  SHARD_TRY(const bool there, IsThere(path));
  std::string text;
  if (there) {
    SHARD_TRY(text, ReadTextFile(path, kMaxNotes));
  }
  if (!kHeading.starts_with(std::string_view(text).substr(0, kHeading.size()))) {
    return Error{Code::kInvalidArgument,
                 Cat(path, ": expected notes of a verification, found something else"),
                 "name a new file: verify creates it"};
  }
  // A run may have been killed while it wrote the heading.
  if (text.size() < kHeading.size()) {
    text = kHeading;
    SHARD_CHECK(WriteTextFile(path, text));
  }
  ProvedFiles notes;
  notes.path_ = path;
  notes.fd_ = Descriptor(open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!notes.fd_.valid()) return IoError(path, "open", errno);
  // An interrupted run may have left part of a line, which must not swallow the next one.
  if (!text.ends_with('\n')) SHARD_CHECK(Append(notes.fd_.get(), path, "\n"));
  for (const std::string& line : Split(text.substr(kHeading.size()), '\n'))
    if (IsXxh3Hex(line)) notes.keys_.insert(line);
  return notes;
}

Status ProvedFiles::Add(const File& file) {
  const std::lock_guard lock(*mutex_);
  return Append(fd_.get(), path_, KeyOf(file) + "\n");
}

void ProvedFiles::Remove() { unlink(path_.c_str()); }

}  // namespace moepack::manifest
