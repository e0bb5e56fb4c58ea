#include "libshard/base/files/mapped_file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <mutex>
#include <new>
#include <utility>

#include "libshard/base/files/descriptor.h"
#include "libshard/base/files/file.h"
#include "libshard/base/text/text.h"

namespace moepack {

namespace {

// A mapping, as the SIGBUS handler sees it. Ranges are never freed, only reused, so that the
// handler can walk their list at any time without a lock.
struct MappedRange {
  std::atomic<uintptr_t> begin{0}, end{0};  // both 0: free
  std::atomic<bool> vanished{false};        // a page was replaced by zeros
  MappedRange* next = nullptr;              // set before the range is published
  // Not for the handler; guarded by RangesMutex.
  std::string path;
  struct stat mapped = {};  // what the file was
};

static_assert(std::atomic<uintptr_t>::is_always_lock_free);
static_assert(std::atomic<MappedRange*>::is_always_lock_free);

constinit std::atomic<MappedRange*> g_ranges{nullptr};
constinit uintptr_t g_page = 0;
struct sigaction g_previous;

std::mutex& RangesMutex() {
  static std::mutex mutex;
  return mutex;
}

// From here on use only lock-free atomics, mmap and sigaction: this may interrupt any code at all.
bool ReplaceByZeros(uintptr_t address) {
  for (MappedRange* range = g_ranges.load(); range != nullptr; range = range->next) {
    const uintptr_t begin = range->begin.load(), end = range->end.load();
    if (address < begin || address >= end) continue;
    range->vanished.store(true);
    // Everything after this page has vanished, too. Replacing it in one piece keeps it one mapping,
    // however many pages fault.
    const uintptr_t from = address - address % g_page;
    void* const zeros = mmap(reinterpret_cast<void*>(from), end - from, PROT_READ,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE, -1, 0);
    return zeros != MAP_FAILED;
  }
  return false;
}

void OnBusError(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (ReplaceByZeros(reinterpret_cast<uintptr_t>(info->si_addr))) {
    errno = error;
    return;
  }
  if ((g_previous.sa_flags & SA_SIGINFO) != 0)
    return g_previous.sa_sigaction(signal, info, context);
  if (g_previous.sa_handler != SIG_DFL && g_previous.sa_handler != SIG_IGN) {
    return g_previous.sa_handler(signal);
  }
  sigaction(SIGBUS, &g_previous, nullptr);  // the access is repeated and kills the process
}

void InstallHandler() {
  g_page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = OnBusError;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &action, &g_previous);
}

// A free range, or a new one at the front of the list. REQUIRES: RangesMutex is held.
MappedRange* FreeRange() {
  for (MappedRange* range = g_ranges.load(); range != nullptr; range = range->next) {
    if (range->end.load() == 0) return range;
  }
  auto* const range = new MappedRange;
  range->next = g_ranges.load();
  g_ranges.store(range);
  return range;
}

void Register(std::span<const std::byte> bytes, const std::string& path, const struct stat& info) {
  const std::lock_guard lock(RangesMutex());
  static const bool installed = (InstallHandler(), true);
  static_cast<void>(installed);
  MappedRange* const range = FreeRange();
  range->path = path;
  range->mapped = info;
  range->vanished = false;
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  range->begin = begin;
  range->end = begin + bytes.size();
}

void Unregister(const std::byte* data) {
  const std::lock_guard lock(RangesMutex());
  for (MappedRange* range = g_ranges.load(); range != nullptr; range = range->next) {
    if (range->begin.load() != reinterpret_cast<uintptr_t>(data)) continue;
    range->end = 0;
    range->begin = 0;
    return;
  }
}

// Truncated in place; a file that was replaced by another keeps its bytes for as long as it is
// mapped.
bool WasCut(const MappedRange& range) {
  struct stat now;
  if (stat(range.path.c_str(), &now) != 0) return false;
  return now.st_dev == range.mapped.st_dev && now.st_ino == range.mapped.st_ino &&
         now.st_size < range.mapped.st_size;
}

}  // namespace

Status CheckMappedFiles() {
  const std::lock_guard lock(RangesMutex());
  for (MappedRange* range = g_ranges.load(); range != nullptr; range = range->next) {
    if (range->end.load() == 0) continue;
    // The last bytes of a page that still exists become zeros without a signal.
    if (WasCut(*range)) {
      return Error{Code::kCorrupt, Cat(range->path, ": the file was cut while it was read"),
                   "do not write to a model while it is loaded; copy or download it again"};
    }
    if (range->vanished.load()) {
      return Error{Code::kIo, Cat(range->path, ": a page of the file could not be read"),
                   "the file was cut, or its disk or network fails"};
    }
  }
  return Ok();
}

namespace {

// Maps `source`, or anonymous memory if it has no descriptor.
Result<void*> MapMemory(const ByteSource& source) {
  const std::optional<int> fd = source.descriptor();
  void* const address =
      fd ? mmap(nullptr, source.size(), PROT_READ, MAP_PRIVATE, *fd, 0)
         : mmap(nullptr, source.size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (address != MAP_FAILED) return address;
  return Error{Code::kIo, Cat(source.name(), ": map: ", ErrnoText(errno))};
}

}  // namespace

Result<MappedFile> MappedFile::Map(const ByteSource& source) {
  MappedFile file;
  if (source.size() == 0) return file;
  SHARD_TRY(void* const address, MapMemory(source));
  file.data_ = static_cast<const std::byte*>(address);
  file.size_ = source.size();
  if (const std::optional<int> fd = source.descriptor()) {
    struct stat info;
    if (fstat(*fd, &info) != 0) return IoError(source.name(), "look it up", errno);
    info.st_size = static_cast<off_t>(file.size_);  // it may have been truncated meanwhile
    Register(file.bytes(), source.name(), info);
    return file;
  }
  SHARD_CHECK(source.ReadAt(0, {static_cast<std::byte*>(address), file.size_}));
  return file;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ == nullptr) return;
  Unregister(data_);
  munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace moepack
